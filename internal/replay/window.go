package replay

import "encoding/binary"

// A window adds up what one key was admitted within the last period. It keeps the
// instants run-length encoded: units admitted at one instant are one run.
type window struct {
	runs  []byte // of all instants but the latest: uvarint units, uvarint ns until the next run
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
		w.runs = binary.AppendUvarint(w.runs, uint64(w.units))
		w.runs = binary.AppendUvarint(w.runs, uint64(now-w.last))
		w.last, w.units = now, 0
	}
	w.units += units
	w.sum += units
	w.forget(now - period)
	return w.sum
}

// forget drops the runs at that instant and before, and makes room for new ones
// when half of the bytes are of no more use.
func (w *window) forget(until int64) {
	for w.first <= until && w.gone < len(w.runs) {
		units, n := binary.Uvarint(w.runs[w.gone:])
		wait, m := binary.Uvarint(w.runs[w.gone+n:])
		w.gone += n + m
		w.sum -= int64(units)
		w.first += int64(wait)
	}
	if w.gone > len(w.runs)/2 {
		w.runs = w.runs[:copy(w.runs, w.runs[w.gone:])]
		w.gone = 0
	}
}
