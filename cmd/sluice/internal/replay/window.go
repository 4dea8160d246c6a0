package replay

import "slices"

// A window adds up what one key was admitted within the last period. It keeps the
// instants run-length encoded: units admitted at one instant are one run.
type window struct {
	runs  []byte // of all instants but the latest, each with the time until the next one
	gone  int    // the bytes of runs that are forgotten
	first int64  // the instant of the first run, or the latest if there are no runs
	last  int64  // the latest instant
	units int64  // admitted at the latest instant
	sum   int64  // of all runs and the latest
}

// add admits units at now, which is not before the latest instant, and returns
// what was admitted in the half-open period that ends just after now.
func (w *window) add(now, units, period int64) int64 {
	switch {
	case w.sum == 0:
		w.first, w.last = now, now
	case now > w.last:
		var run [maxRun]byte
		w.keep(appendRun(run[:0], w.units, now-w.last))
		w.last, w.units = now, 0
	}
	w.units += units
	w.sum += units
	w.forget(now - period)
	return w.sum
}

// keep appends a run. There is a window for each key and policy, so it makes room by
// an eighth, where append would by as much again.
func (w *window) keep(run []byte) {
	if n := len(w.runs); cap(w.runs)-n < len(run) {
		w.runs = append(slices.Grow([]byte(nil), n+n/8+len(run)), w.runs...)
	}
	w.runs = append(w.runs, run...)
}

// forget drops the runs at that instant and before, and makes room for new ones
// when an eighth of the bytes is of no more use.
func (w *window) forget(until int64) {
	for w.first <= until && w.gone < len(w.runs) {
		units, wait, n := readRun(w.runs[w.gone:])
		w.gone += n
		w.sum -= units
		w.first += wait
	}
	if w.gone > len(w.runs)/8 {
		w.runs = w.runs[:copy(w.runs, w.runs[w.gone:])]
		w.gone = 0
	}
}
