package movingwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// Step decides a request of o.Cost units at now. It accepts any state, any time and any
// options. With options that are not valid it denies everything, with a RetryAfter of
// [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, algorithm.Step)
	return s, r
}

// Peek reports whether Step would allow the request now. It pays nothing: Result.Paid is 0, and the
// cost is not subtracted from Result.Remaining.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decide(&s, now, &o, &r, algorithm.Peek)
	return r
}

// Refund gives o.Cost units back, but no more than are in use. It starts with the newest slot
// and ends with the trailing one.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, algorithm.Refund)
	return s, r
}

// Charge takes o.Cost units, even if fewer are left. The missing units are a debt, which ends at the
// latest when the current slot has left the window. Charge takes fewer units if the sum of the
// counts would exceed 2^62.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, algorithm.Charge)
	return s, r
}

// decide changes the state in place, because a copy takes as long as the decision. The
// exported functions are short enough to be inlined.
func decide(s *State, now time.Time, o *Options, r *algo.Result, op algorithm.Op) {
	w := newWindow(o)
	w.decide(s, algo.Instant(now), r, op)
}

// decide fills in r, of which only Cost is set; a Cost of 0 means that of the options. It
// reports whether it changed the state.
func (w *window) decide(s *State, now int64, r *algo.Result, op algorithm.Op) (changed bool) {
	if r.Cost == 0 {
		r.Cost = algorithm.Or(w.Cost, 1)
	}
	if w.slots == 0 {
		r.RetryAfter = algo.Never
		return false
	}
	recent, trailing, ok := s.sum(w.slots)
	if !ok || s.Width != w.width || uint64(s.At) > algo.MaxInstant {
		return w.decideNormalized(s, now, r, op)
	}
	var u usage // a literal would be copied
	u.window, u.state, u.now, u.recent, u.trailing = w, s, now, recent, trailing
	u.advance(r)
	r.Allowed = true
	switch {
	case op == algorithm.Refund:
		if changed = !r.Fresh; changed {
			u.giveBack(r.Cost, r)
		}
	case op == algorithm.Charge:
		room := algo.MaxCount - u.recent - u.trailing
		if changed = room > 0; changed {
			u.pay(min(r.Cost, room), r)
		}
	case r.Cost > u.left:
		r.Allowed, r.RetryAfter = false, u.wait(r.Cost)
	case op == algorithm.Step:
		u.pay(r.Cost, r)
		changed = true
	}
	u.complete(r)
	return changed
}

// decideNormalized decides on a state that no step with w returns, for example that of a
// new key.
func (w *window) decideNormalized(s *State, now int64, r *algo.Result, op algorithm.Op) (changed bool) {
	normal := s.normalized()
	if normal.Width != w.width {
		normal.resize(w.width, w.slots)
	}
	if changed = w.decide(&normal, now, r, op); changed {
		*s = normal
	}
	return changed
}
