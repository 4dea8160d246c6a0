package tokenbucket

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// Step decides a request of o.Cost tokens at now. It accepts any state, any time and any
// options. With options that are not valid it denies everything, with a RetryAfter of
// [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, algorithm.Step)
	return next, r
}

// Peek reports whether Step would allow the request now. It pays nothing: Result.Paid is 0, and the
// cost is not subtracted from Result.Remaining.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideWith(&o, s, now, &r, algorithm.Peek)
	return r
}

// Refund gives o.Cost tokens back, at most until the bucket is full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, algorithm.Refund)
	return next, r
}

// Charge takes o.Cost tokens, even if fewer are left, and leaves a debt. It takes fewer if the level would exceed
// [algo.MaxLevel], or if the bucket would take longer than 2^52 microseconds (142 years) to refill.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, algorithm.Charge)
	return next, r
}

// decideWith decides with options that may not be valid.
func decideWith(o *Options, s State, now time.Time, r *algo.Result, op algorithm.Op) State {
	r.Cost = algorithm.Or(o.Cost, 1)
	args := o.arguments()
	return decide(&args, s, algo.Instant(now), r, op)
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

// decide fills in r, of which only Cost is set. It returns the next state, or s if nothing is paid. step.lua and step.sql
// have the same lines, without those for r.
//
// level is the weight of the missing tokens, and at is the time of the last refill that counts in it. If the limit has
// changed, refills of the new limit up to the last paid step do not count.
func decide(args *arguments, s State, now int64, r *algo.Result, op algorithm.Op) State {
	burst, unit, drain, every, most, cost := args.burst, args.unit, args.drain, args.every, args.most, r.Cost
	if unit == 0 {
		r.RetryAfter = algo.Never
		return s
	}
	state := algorithm.Usage(s).Normalized()
	last, at := state.At, state.At
	if state.Unit >= begun { // the rest is the time from the last refill to the last paid step
		at -= (state.Unit - begun) % every
		state.Unit = 1
	}
	level := state.LevelFor(unit, most)
	before := ceil(level, unit)

	refills := max(0, now-at)
	if every > 1 {
		refills /= every
	}
	if float64(refills)*float64(drain) >= float64(level) { // exact: a product that is rounded is above every level
		at, level = now, 0
	} else {
		at, level = at+refills*every, level-refills*drain
	}
	used := ceil(level, unit)

	paid := int64(0)
	r.Allowed = true
	switch {
	case op == algorithm.Refund:
		paid = -min(cost, used)
	case op == algorithm.Charge:
		paid = min(cost, (most-level)/unit)
	case cost > burst:
		r.Allowed, r.RetryAfter = false, algo.Never
	case level+cost*unit > burst*unit:
		r.Allowed, r.RetryAfter = false, args.wait(at, level-(burst-cost)*unit, now)
	case op == algorithm.Step:
		paid = cost
	}

	r.Limit, r.Paid, r.Skew = burst, paid, time.Duration(max(0, last-now))*time.Microsecond
	r.Refilled = before - used
	if r.Fresh = level == 0; r.Fresh {
		r.Refilled = burst
	}
	level = max(0, level+paid*unit)
	used += paid
	r.Remaining = burst - used
	r.Available = r.Remaining + paid - r.Refilled
	if level > 0 {
		r.NextRefill = args.wait(at, level-(used-1)*unit, now)
		r.ResetAfter = args.wait(at, level, now)
	}

	switch {
	case paid == 0:
		return s
	case level == 0:
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
	return time.Duration(at+ceil(weight, args.drain)*args.every-now) * time.Microsecond
}

// ceil returns a/b, rounded up. a must not be negative.
func ceil(a, b int64) int64 { return (a + b - 1) / b }
