package fixedwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Step decides a request of o.Cost units at now. It accepts any state, any time and any
// options. With options that are not valid it denies everything, with a RetryAfter of
// [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, opStep)
	return next, r
}

// Peek returns the Result that Step would return, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideAt(s, now, &o, &r, opPeek)
	return r
}

// Refund gives o.Cost units back to the window that is open at now, at most until it is
// full. If no units are in use after that, the window is closed.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, opRefund)
	return next, r
}

// Charge takes o.Cost units, even if fewer are left. The missing units become a debt, which
// ends with the window. At most 2^62 units can be in use; Charge takes fewer rather than
// exceed that.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, opCharge)
	return next, r
}

type operation int

const (
	opStep operation = iota
	opPeek
	opRefund
	opCharge
)

// decideAt converts the time. The exported functions could not be inlined if they did.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, op operation) State {
	next := s
	if !decide(&next, algo.Instant(now), o, r, op) {
		return s
	}
	return next
}

// decide changes s to the next state and fills in r, of which only Cost is set; a Cost of 0
// means that of the options. It reports whether the state changed. If it did not, s has no
// meaning afterwards.
func decide(s *State, now int64, o *Options, r *algo.Result, op operation) (changed bool) {
	end, ok := advance(s, now, o, r)
	if !ok {
		return false
	}
	switch {
	case op == opRefund:
		r.Paid = -min(r.Cost, s.Used)
	case op == opCharge:
		r.Paid = min(r.Cost, algo.MaxCount-s.Used)
	case r.Cost > r.Limit-s.Used:
		r.RetryAfter = wait(now, end, r)
	case op == opStep:
		r.Paid = r.Cost
	}
	r.Allowed = r.RetryAfter == 0
	s.Used += r.Paid
	complete(s, now, end, r)
	return r.Paid != 0
}

// advance changes s to the window that is open at now, or to an unused window that starts
// now, and returns its end. ok is false if the options are not valid; r is then the denial.
func advance(s *State, now int64, o *Options, r *algo.Result) (end int64, ok bool) {
	if r.Cost == 0 {
		r.Cost = o.cost()
	}
	if !o.valid() {
		r.RetryAfter = algo.Never
		return 0, false
	}
	if !s.isNormal() {
		*s = s.normalized()
	}
	r.Limit = o.Limit.Count
	if s.Used > 0 {
		if end = o.end(s.Start); now < end {
			r.Available = r.Limit - s.Used
			r.Skew = time.Duration(max(s.Start-now, 0))
			return end, true
		}
	}
	r.Fresh, r.Refilled = true, r.Limit
	s.Start, s.Used = now, 0
	return o.end(now), true
}

// wait returns the time until a denied cost is allowed.
func wait(now, end int64, r *algo.Result) time.Duration {
	if r.Cost > r.Limit {
		return algo.Never
	}
	return time.Duration(end - now)
}

// complete sets the fields of r that depend on the next state. It closes a window without
// units in use.
func complete(s *State, now, end int64, r *algo.Result) {
	r.Remaining = r.Limit - s.Used
	if s.Used == 0 {
		s.Start = 0
		return
	}
	r.NextRefill = time.Duration(end - now)
	r.ResetAfter = r.NextRefill
}
