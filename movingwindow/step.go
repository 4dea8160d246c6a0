package movingwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Step decides a request of o.Cost units at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	r.Cost = o.Cost
	var w window
	w.bind(&o)
	if !step(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	r.Cost = o.Cost
	var w window
	w.bind(&o)
	peek(&s, algo.Instant(now), &w, &r)
	return r
}

// Refund gives o.Cost units back, up to full: to the newest slots first, and to
// the trailing one last.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	r.Cost = o.Cost
	var w window
	w.bind(&o)
	if !refund(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// until the slot has left the window. The counts do not pass 2^62 in all by it.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	r.Cost = o.Cost
	var w window
	w.bind(&o)
	if !charge(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// step moves the state and completes the Result r, of which only the Cost is set: 0
// for that of the options. It reports whether the state changed; where it did not,
// what it left in s has no meaning. So do its siblings.
func step(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	if r.Allowed = r.Cost <= a.left; r.Allowed {
		a.pay(r.Cost, r)
	} else {
		r.RetryAfter = a.wait(r.Cost)
	}
	a.conclude(r)
	return r.Allowed
}

func peek(s *State, now int64, w *window, r *algo.Result) {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return
	}
	if r.Allowed = r.Cost <= a.left; !r.Allowed {
		r.RetryAfter = a.wait(r.Cost)
	}
	a.conclude(r)
}

func refund(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	if r.Allowed = true; !r.Fresh {
		a.repay(r.Cost, r)
	}
	a.conclude(r)
	return !r.Fresh
}

func charge(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	r.Allowed = true
	if room := algo.MaxCount - a.recent - a.trailing; room > 0 {
		a.pay(min(r.Cost, room), r)
	}
	a.conclude(r)
	return r.Paid > 0
}
