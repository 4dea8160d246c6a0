package backtest

import (
	"encoding/binary"
	"slices"
)

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
		w.keep(w.units, now-w.last)
		w.last, w.units = now, 0
	}
	w.units += units
	w.sum += units
	w.forget(now - period)
	return w.sum
}

// keep appends a run. It grows the slice by an eighth, because append would double it, and each
// key and policy has a window.
func (w *window) keep(units, wait int64) {
	var space [2 * binary.MaxVarintLen64]byte
	run := appendRun(space[:0], units, wait)
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

const second = 1_000_000 // microseconds

// appendRun appends a run: the units and twice the wait in seconds, or if that is not a whole
// number, twice the wait in microseconds plus 1.
func appendRun(dst []byte, units, wait int64) []byte {
	code := uint64(wait)<<1 | 1
	if wait%second == 0 {
		code = uint64(wait/second) << 1
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(units)), code)
}

// readRun reads the run at the beginning of b, which is n bytes long. The wait is in microseconds.
func readRun(b []byte) (units, wait int64, n int) {
	u, n := binary.Uvarint(b)
	code, m := binary.Uvarint(b[n:])
	wait = int64(code >> 1)
	if code&1 == 0 {
		wait *= second
	}
	return int64(u), wait, n + m
}
