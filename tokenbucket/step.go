package tokenbucket

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Step decides a request of o.Cost tokens at now. With invalid options it denies, with a RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Step)
	return next, r
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideWith(&o, s, now, &r, policy.Peek)
	return r
}

// Refund gives back o.Cost tokens, at most until the bucket is full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Refund)
	return next, r
}

// Charge takes o.Cost tokens, even if that leaves a debt. It takes fewer if the level would exceed [algo.MaxLevel], or the refill
// would take longer than 142 years.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Charge)
	return next, r
}

// decideWith decides with options and a state that may not be valid. If nothing is paid, it returns s.
func decideWith(o *Options, s State, now time.Time, r *algo.Result, op policy.Op) State {
	r.Cost = policy.Or(o.Cost, 1)
	var args arguments
	o.arguments(&args)
	next := decide(&args, State(policy.Usage(s).Normalized()), algo.Instant(now), r, op)
	if r.Paid == 0 {
		return s
	}
	return next
}

// arguments are those of the programs in Lua and SQL. Both kinds of refill use the same arithmetic: continuous refill is
// an interval of a microsecond.
type arguments struct {
	burst int64
	unit  int64 // the weight of a token; 0 if the options are not valid
	drain int64 // the weight that is refilled at once
	every int64 // the microseconds from a refill to the next
	most  int64 // the highest level
}

// decide fills in r, of which only Cost is set. It returns the next state, which has no meaning if nothing is paid. s must
// be normal. step.lua and step.sql have the same lines, without those for r.
//
// level is the weight of the missing tokens, and at is the time of the last refill that it includes. If the limit has
// changed, refills of the new limit up to the last paid step do not count.
func decide(args *arguments, s State, now int64, r *algo.Result, op policy.Op) State {
	burst, unit, drain, every, most, cost := args.burst, args.unit, args.drain, args.every, args.most, r.Cost
	if unit == 0 {
		r.RetryAfter = algo.Never
		return s
	}
	last, at := s.At, s.At
	if s.Unit >= begun { // the rest is the time from the last refill to the last paid step
		at -= (s.Unit - begun) % every
		s.Unit = 1
	}
	before := policy.Usage(s).LevelFor(unit, most)
	level := before

	refills := max(0, now-at)
	if every > 1 {
		refills /= every
	}
	if policy.IsDrained(level, refills, drain) {
		at, level = now, 0
	} else {
		at, level = at+refills*every, level-refills*drain
	}
	used := policy.Ceil(level, unit)

	paid := int64(0)
	r.Allowed, r.Fresh, r.Limit, r.Skew = true, level == 0, burst, time.Duration(max(0, last-now))*time.Microsecond
	switch {
	case op == policy.Refund:
		paid = -min(cost, used)
	case op == policy.Charge:
		paid = min(cost, (most-level)/unit)
	case cost > burst:
		r.Allowed, r.RetryAfter = false, algo.Never
	case level+cost*unit > burst*unit:
		r.Allowed, r.RetryAfter = false, args.wait(at, level-(burst-cost)*unit, now)
	case op == policy.Step:
		paid = cost
	}

	r.Paid = paid
	if r.Fresh {
		r.Refilled = burst
	} else {
		r.Refilled = policy.Ceil(before, unit) - used
	}
	level = max(0, level+paid*unit)
	used += paid
	r.Remaining = burst - used
	r.Available = r.Remaining + paid - r.Refilled
	if level > 0 {
		r.NextRefill = args.wait(at, level-(used-1)*unit, now)
		r.ResetAfter = args.wait(at, level, now)
	}

	if level == 0 {
		return State{}
	}
	last = max(last, now)
	if every > 1 {
		unit = begun + last - at
	}
	return State{last, level, unit}
}

// wait returns the time from now until a weight is refilled after at.
func (args *arguments) wait(at, weight, now int64) time.Duration {
	return time.Duration(at+policy.Ceil(weight, args.drain)*args.every-now) * time.Microsecond
}
