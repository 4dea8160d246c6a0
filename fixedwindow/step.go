package fixedwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// Step decides a request of o.Cost units at now. It accepts any state, any time and any
// options. With options that are not valid it denies everything, with a RetryAfter of
// [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Step)
	return next, r
}

// Peek reports whether Step would allow the request now. It pays nothing: Result.Paid is 0, and the
// cost is not subtracted from Result.Remaining.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideAt(s, now, &o, &r, algorithm.Peek)
	return r
}

// Refund gives o.Cost units back to the window that is open at now, but no more than are in use. If
// no units are in use after that, the window is closed.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Refund)
	return next, r
}

// Charge takes o.Cost units, even if fewer are left. The missing units become a debt, which ends
// with the window. At most 2^62 units can be in use, so Charge may take fewer.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Charge)
	return next, r
}

// decideAt converts the time. The exported functions could not be inlined if they did.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, op algorithm.Op) State {
	next := s
	if decide(&next, algo.Instant(now), o, r, op); r.Paid == 0 {
		return s
	}
	return next
}

// decide changes s to the next state and fills in r, of which only Cost is set; a Cost of 0
// means that of the options. If nothing is paid, s has no meaning afterwards.
func decide(s *State, now int64, o *Options, r *algo.Result, op algorithm.Op) {
	if r.Cost == 0 {
		r.Cost = algorithm.Or(o.Cost, 1)
	}
	if !o.valid() {
		r.RetryAfter = algo.Never
		return
	}
	r.Limit = o.Limit.Count
	end := advance(s, now, o, r)
	switch {
	case op == algorithm.Refund:
		r.Paid = -min(r.Cost, s.Used)
	case op == algorithm.Charge:
		r.Paid = min(r.Cost, algo.MaxCount-s.Used)
	case r.Cost > r.Limit:
		r.RetryAfter = algo.Never
	case r.Cost > r.Limit-s.Used:
		r.RetryAfter = time.Duration(end - now)
	case op == algorithm.Step:
		r.Paid = r.Cost
	}
	r.Allowed = r.RetryAfter == 0
	s.Used += r.Paid
	r.Remaining = r.Limit - s.Used
	if s.Used > 0 {
		r.NextRefill = time.Duration(end - now)
		r.ResetAfter = r.NextRefill
	} else {
		s.Start = 0 // the window is closed
	}
}

// advance changes s to the window that is open at now, or to an unused window that starts
// now, and returns its end.
func advance(s *State, now int64, o *Options, r *algo.Result) (end int64) {
	if !s.isNormal() {
		*s = s.normalized()
	}
	if s.Used > 0 {
		if end = o.end(s.Start); now < end {
			r.Available = r.Limit - s.Used
			r.Skew = time.Duration(max(s.Start-now, 0))
			return end
		}
	}
	r.Fresh, r.Refilled = true, r.Limit
	*s = State{Start: now}
	return o.end(now)
}
