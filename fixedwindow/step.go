package fixedwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Step decides a request of o.Cost units at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, pay)
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideAt(s, now, &o, &r, look)
	return r
}

// Refund gives o.Cost units back to the window that is open at now, up to full.
// With nothing used any more there is no window.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, refund)
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// which ends with the window. Used does not pass 2^62.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, charge)
	return next, r
}

// purpose is what a decision is for.
type purpose int

const (
	pay purpose = iota
	look
	refund
	charge
)

// decideAt keeps the conversion of the time out of the exported functions, which
// could not be inlined with it.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, to purpose) State {
	next := s
	if !decide(&next, algo.Instant(now), o, r, to) {
		return s
	}
	return next
}

// decide moves the state and fills in r, which comes with nothing but its Cost; 0
// is that of the options. It reports whether the state changed; where it did not,
// what it left in s has no meaning.
func decide(s *State, now int64, o *Options, r *algo.Result, to purpose) (changed bool) {
	end, ok := settle(s, now, o, r)
	if !ok {
		return false
	}
	switch {
	case to == refund:
		r.Paid = -min(r.Cost, s.Used)
	case to == charge:
		r.Paid = min(r.Cost, algo.MaxCount-s.Used)
	case r.Cost > r.Limit-s.Used:
		r.RetryAfter = wait(now, end, r)
	case to == pay:
		r.Paid = r.Cost
	}
	r.Allowed = r.RetryAfter == 0
	s.Used += r.Paid
	conclude(s, now, end, r)
	return r.Paid != 0
}

// settle makes s the window that is open at now, or an unused one from now on, and
// tells its end. It reports whether the options are valid; where they are not, r
// is the denial.
func settle(s *State, now int64, o *Options, r *algo.Result) (end int64, ok bool) {
	if r.Cost == 0 {
		r.Cost = o.cost()
	}
	if !o.valid() {
		r.RetryAfter = algo.Never
		return 0, false
	}
	if !s.isNormal() {
		*s = s.normal()
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

// wait is how long until the cost is there, where it is not there now.
func wait(now, end int64, r *algo.Result) time.Duration {
	if r.Cost > r.Limit {
		return algo.Never
	}
	return time.Duration(end - now)
}

// conclude completes the result with what stands now. A window with nothing used
// is none.
func conclude(s *State, now, end int64, r *algo.Result) {
	r.Remaining = r.Limit - s.Used
	if s.Used == 0 {
		s.Start = 0
		return
	}
	r.NextRefill = time.Duration(end - now)
	r.ResetAfter = r.NextRefill
}
