package replay

import "encoding/binary"

// A window adds up what one key was admitted within the last period. It keeps
// the instants run-length encoded: units admitted at one instant are one run.
type window struct {
	runs  []byte // of all instants but the latest: uvarint units, uvarint ns until the next run
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

// forget drops the runs at that instant and before.
func (w *window) forget(until int64) {
	rest := w.runs
	for w.first <= until && len(rest) > 0 {
		units, n := binary.Uvarint(rest)
		wait, m := binary.Uvarint(rest[n:])
		rest = rest[n+m:]
		w.sum -= int64(units)
		w.first += int64(wait)
	}
	if len(rest) < len(w.runs) {
		w.runs = w.runs[:copy(w.runs, rest)]
	}
}
