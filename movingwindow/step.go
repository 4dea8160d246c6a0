package movingwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Step decides a request of o.Cost units at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, pay)
	return s, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decide(&s, now, &o, &r, look)
	return r
}

// Refund gives o.Cost units back, up to full: to the newest slots first, and to
// the trailing one last.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, refund)
	return s, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// until the slot has left the window. The counts do not pass 2^62 in all by it.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	decide(&s, now, &o, &r, charge)
	return s, r
}

// purpose is what a decision is for.
type purpose int

const (
	pay purpose = iota
	look
	refund
	charge
)

// decide is behind functions small enough to be inlined, and moves the state in
// place: copies of it cost as much as the decision.
func decide(s *State, now time.Time, o *Options, r *algo.Result, to purpose) {
	var w window
	w.bind(o)
	w.decide(s, algo.Instant(now), r, to)
}

// decide fills in r, which comes with nothing but its Cost; 0 is that of the
// options. It reports whether it changed the state.
func (w *window) decide(s *State, now int64, r *algo.Result, to purpose) (changed bool) {
	if r.Cost == 0 {
		r.Cost = w.cost
	}
	if w.slots == 0 {
		r.RetryAfter = algo.Never
		return false
	}
	recent, trailing, ok := s.add(w.slots)
	if !ok || s.Width != w.width || uint64(s.At) > algo.MaxInstant {
		return w.decideMended(s, now, r, to)
	}
	var a account // a literal would be copied
	a.window, a.state, a.now, a.recent, a.trailing = w, s, now, recent, trailing
	a.open(r)
	switch to {
	case pay, look:
		if r.Allowed = r.Cost <= a.left; !r.Allowed {
			r.RetryAfter = a.wait(r.Cost)
		} else if to == pay {
			a.pay(r.Cost, r)
			changed = true
		}
	case refund:
		if r.Allowed = true; !r.Fresh {
			a.repay(r.Cost, r)
			changed = true
		}
	case charge:
		r.Allowed = true
		if room := algo.MaxCount - a.recent - a.trailing; room > 0 {
			a.pay(min(r.Cost, room), r)
			changed = true
		}
	}
	a.conclude(r)
	return changed
}

// decideMended decides on a state that is not such as a step under w leaves
// behind, a key never seen among them.
func (w *window) decideMended(s *State, now int64, r *algo.Result, to purpose) (changed bool) {
	mended := s.normal()
	if mended.Width != w.width {
		mended.recut(w.width, w.slots)
	}
	if changed = w.decide(&mended, now, r, to); changed {
		*s = mended
	}
	return changed
}
