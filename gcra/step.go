package gcra

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Step decides a request of o.Cost units at now. With invalid options it denies, with a RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Step)
	return next, r
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideWith(&o, s, now, &r, policy.Peek)
	return r
}

// Refund gives back o.Cost units, but no more than are in use.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Refund)
	return next, r
}

// Charge takes o.Cost units, even if that leaves a debt. It takes fewer if the level would exceed [algo.MaxLevel], which is at
// least two bursts.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Charge)
	return next, r
}

// decideWith decides with options and a state that may not be valid. If nothing is paid, it returns s.
func decideWith(o *Options, s State, now time.Time, r *algo.Result, op policy.Op) State {
	r.Cost = policy.Or(o.Cost, 1)
	args := o.arguments()
	next := decide(&args, State(policy.Usage(s).Normalized()), algo.Instant(now), r, op)
	if r.Paid == 0 {
		return s
	}
	return next
}

// arguments are those of the programs in Lua and SQL.
type arguments struct {
	burst int64
	unit  int64 // the weight of a unit; 0 if the options are not valid
	drain int64 // the weight that drains every microsecond
}

// decide fills in r, of which only Cost is set. It returns the next state, which has no meaning if nothing is paid. s must
// be normal. step.lua and step.sql have the same lines, without those for r.
//
// level is the weight of the units in use, and at is its time. For a clock that is behind, the units that drain until
// at are in use too.
func decide(args *arguments, s State, now int64, r *algo.Result, op policy.Op) State {
	burst, unit, drain, cost := args.burst, args.unit, args.drain, r.Cost
	if unit == 0 {
		r.RetryAfter = algo.Never
		return s
	}
	at, before := s.At, policy.Usage(s).LevelFor(unit, algo.MaxLevel)
	level := before

	passed, skew := now-at, int64(0)
	switch {
	case passed < 0:
		skew = -passed
	case policy.IsDrained(level, passed, drain):
		at, level = now, 0
	default:
		at, level = now, level-passed*drain
	}
	seen := level
	if skew > 0 {
		seen = seenFrom(level, skew, drain)
	}
	used := policy.Ceil(seen, unit)

	paid := int64(0)
	r.Allowed, r.Fresh, r.Limit, r.Skew = true, level == 0, burst, time.Duration(skew)*time.Microsecond
	switch {
	case op == policy.Refund:
		paid = -min(cost, policy.Ceil(level, unit))
	case op == policy.Charge:
		paid = min(cost, (algo.MaxLevel-level)/unit)
	case cost > burst:
		r.Allowed, r.RetryAfter = false, algo.Never
	case seen+cost*unit > burst*unit:
		r.Allowed, r.RetryAfter = false, wait(skew, level-(burst-cost)*unit, drain)
	case op == policy.Step:
		paid = cost
	}

	r.Paid = paid
	if r.Fresh {
		r.Refilled = burst
	} else {
		r.Refilled = max(0, policy.Ceil(before, unit)-used)
	}
	level = max(0, level+paid*unit)
	switch {
	case level == 0:
		used = 0
	case skew == 0:
		used += paid
	default:
		used = policy.Ceil(seenFrom(level, skew, drain), unit)
	}
	r.Remaining = burst - used
	r.Available = r.Remaining + paid - r.Refilled
	if level > 0 {
		r.NextRefill = wait(skew, level-(used-1)*unit, drain)
		r.ResetAfter = wait(skew, level, drain)
		return State{at, level, unit}
	}
	return State{}
}

// seenFrom returns the level for a clock that is behind by skew, at most algo.MaxLevel.
func seenFrom(level, skew, drain int64) int64 {
	if skew > (algo.MaxLevel-level)/drain {
		return algo.MaxLevel
	}
	return level + skew*drain
}

// wait returns the time until a weight has drained, for a clock that is behind by skew. A negative weight drained
// before the state's time.
func wait(skew, weight, drain int64) time.Duration {
	if weight < 0 {
		return time.Duration(skew+weight/drain) * time.Microsecond
	}
	return time.Duration(skew+policy.Ceil(weight, drain)) * time.Microsecond
}
