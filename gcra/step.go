package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
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

// operation is what to do with a request that is allowed.
type operation bool

const (
	opPeek operation = false
	opStep operation = true
)

// decideAt converts the time. The exported functions could not be inlined if they did.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, op operation) State {
	return decide(s, algo.Instant(now), o, r, op)
}

// decide fills in r, of which only Cost is set; a Cost of 0 means that of the options. It
// returns s if nothing is paid.
//
// To avoid rounding, decide multiplies units by Limit.Period and calls the product a weight.
// Every nanosecond drains a weight of Limit.Count. The units in use at now weigh
// (TAT - now) * Limit.Count.
//
// decide is one long function for speed: passing a Result through the stack takes as long
// as two divisions. The exported functions are short enough to be inlined.
func decide(s State, now int64, o *Options, r *algo.Result, op operation) State {
	count, period := o.Limit.Count, int64(o.Limit.Period)
	burst, cost := o.burst(), r.Cost
	if cost == 0 {
		cost = o.cost()
	}
	r.Cost = cost
	if !o.inRange() || !o.refillsInTime(u128.Mul(burst, period)) {
		r.RetryAfter = algo.Never
		return s
	}
	r.Limit = burst

	before := s
	if !before.isNormal(o.Limit.Period) {
		before = before.withPeriod(o.Limit.Period)
	}
	inUse := before.weight()
	if now >= before.At {
		inUse = inUse.Sub(u128.Mul(now-before.At, count))
	} else {
		inUse = inUse.Add(u128.Mul(before.At-now, count))
		r.Skew = time.Duration(before.At - now)
	}
	used, part := inUse.DivMod(period)
	left, untilNext := burst-used, part // untilNext is the weight that drains before the next unit
	if part > 0 {
		left--
	} else {
		untilNext = period
	}
	if inUse.IsZero() {
		r.Fresh, r.Refilled = true, burst
	} else {
		r.Available = min(burst-before.usedRoundedUp(), left)
		r.Refilled = left - r.Available
	}

	if r.Allowed = cost <= left; !r.Allowed {
		r.RetryAfter = o.retry(inUse, cost)
	} else if op == opStep {
		r.Paid = cost
		left, used = left-cost, used+cost
		inUse = inUse.Add(u128.Mul(cost, period))
	}

	r.Remaining = left
	if !inUse.IsZero() {
		r.NextRefill = time.Duration((uint64(untilNext)-1)/uint64(count) + 1)
		wait, rest := inUse.DivMod(count)
		if rest > 0 {
			wait++
		}
		r.ResetAfter = time.Duration(wait)
		if used == math.MaxInt64 {
			r.NextRefill = o.untilRemainingGrows(inUse)
		}
	}
	switch {
	case r.Paid == 0:
		return s
	case now < before.At:
		before.Used += cost
		return before
	}
	return State{now, used, part, o.Limit.Period}
}

// retry returns the time until a denied cost is allowed.
func (o *Options) retry(inUse u128.Uint, cost int64) time.Duration {
	if cost > o.burst() {
		return algo.Never
	}
	level := inUse.Add(u128.Mul(cost, int64(o.Limit.Period)))
	return time.Duration(level.Sub(o.capacity()).CeilDiv(o.Limit.Count))
}

// untilRemainingGrows returns the time until Remaining, which is at its minimum, grows by one.
func (o *Options) untilRemainingGrows(inUse u128.Uint) time.Duration {
	target := u128.Mul(math.MaxInt64-1, int64(o.Limit.Period))
	return time.Duration(inUse.Sub(target).CeilDiv(o.Limit.Count))
}
