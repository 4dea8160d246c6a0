package calendar

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Step decides a request of o.Cost units at now. It accepts any state and time. If the options are not valid,
// it denies with a RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	return decide(&o, s, now, policy.Step)
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) algo.Result {
	_, r := decide(&o, s, now, policy.Peek)
	return r
}

// Refund gives back o.Cost units, but no more than were used in the window.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	return decide(&o, s, now, policy.Refund)
}

// Charge takes o.Cost units, even if that leaves a debt. The debt ends with the window. If now is before s.At, it uses
// s.At. Charge takes fewer units if Used would exceed algo.MaxLevel.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	return decide(&o, s, now, policy.Charge)
}

// decide returns the next state, or s if nothing is paid.
func decide(o *Options, s State, t time.Time, op policy.Op) (next State, r algo.Result) {
	r.Cost = policy.Or(o.Cost, 1)
	if o.Validate() != nil {
		r.RetryAfter = algo.Never
		return s, r
	}
	state, now := policy.Count(s).Normalized(), algo.Instant(t)
	at, before := now, state.Used
	if before > 0 {
		at = max(now, state.At)
	}
	start, end := o.window(at)
	used := before
	if state.At < start {
		used = 0
	}
	paid, left := int64(0), o.Count-used
	r.Allowed = true
	switch {
	case op == policy.Refund:
		paid = -min(r.Cost, used)
	case op == policy.Charge:
		paid = min(r.Cost, algo.MaxLevel-used)
	case r.Cost > o.Count:
		r.Allowed, r.RetryAfter = false, algo.Never
	case r.Cost > left:
		r.Allowed, r.RetryAfter = false, time.Duration(end-now)*time.Microsecond
	case op == policy.Step:
		paid = r.Cost
	}

	r.Limit, r.Paid, r.Skew = o.Count, paid, time.Duration(at-now)*time.Microsecond
	r.Refilled = before - used
	if r.Fresh = used == 0; r.Fresh {
		r.Refilled = o.Count
	}
	used += paid
	r.Remaining = o.Count - used
	r.Available = r.Remaining + paid - r.Refilled
	if used > 0 {
		r.NextRefill = time.Duration(end-now) * time.Microsecond
		r.ResetAfter = r.NextRefill
	}
	switch {
	case paid == 0:
		return s, r
	case used == 0:
		return State{}, r
	}
	return State{at, used}, r
}
