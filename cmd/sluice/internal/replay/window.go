package replay

import "slices"

// A window adds up the units that one key was admitted in the last period. It stores the times
// run-length encoded: the units admitted at one time are one run.
type window struct {
	runs  []byte // of all times but the latest, each with the time until the next run
	gone  int    // the bytes of dropped runs
	first int64  // the time of the first run, or the latest time if there are no runs
	last  int64  // the latest time
	units int64  // admitted at the latest time
	sum   int64  // of all runs and the latest
}

// add admits units at now, which must not be before the latest time. It returns the units
// admitted in the half-open period that ends just after now.
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

// keep appends a run. It grows the slice by an eighth, because append would double it, and each
// key and policy has a window.
func (w *window) keep(run []byte) {
	if n := len(w.runs); cap(w.runs)-n < len(run) {
		w.runs = append(slices.Grow([]byte(nil), n+n/8+len(run)), w.runs...)
	}
	w.runs = append(w.runs, run...)
}

// forget drops the runs at that time and before. It frees their bytes when they are an eighth of
// all bytes.
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
