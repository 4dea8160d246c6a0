package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
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

// Refund gives o.Cost units back, but no more than are in use. If now is before s.At, Refund uses s.At.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Refund)
	return next, r
}

// Charge takes o.Cost units, even if fewer are left. The missing units become a debt. At most 2^62
// units fit into a State, so Charge may take fewer. If now is before s.At, Charge uses s.At.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Charge)
	return next, r
}

// decideAt converts the time. The exported functions could not be inlined if they did.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, op algorithm.Op) State {
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
func decide(s State, now int64, o *Options, r *algo.Result, op algorithm.Op) State {
	count, period, burst := o.Limit.Count, int64(o.Limit.Period), o.burst()
	if r.Cost == 0 {
		r.Cost = algorithm.Or(o.Cost, 1)
	}
	cost := r.Cost
	if !o.inRange() || !o.refillsInTime(u128.Mul(burst, period)) {
		r.RetryAfter = algo.Never
		return s
	}
	r.Limit = burst

	next := s
	if !algorithm.Usage(next).IsNormal(o.Limit.Period) {
		next = next.withPeriod(o.Limit.Period)
	}
	before, inUse := next.usedRoundedUp(), u128.Mul(next.Used, period).Add(u128.From(next.Part))
	behind := now < next.At
	if behind {
		inUse = inUse.Add(u128.Mul(next.At-now, count))
		r.Skew = time.Duration(next.At - now)
	} else {
		inUse = inUse.Sub(u128.Mul(now-next.At, count))
	}
	used, part := inUse.DivMod(period)
	if !behind {
		next.At, next.Used, next.Part = now, used, part
	}
	left := o.unitsLeft(used, part)
	if inUse.IsZero() {
		r.Fresh, r.Refilled = true, burst
	} else {
		r.Available = min(burst-before, left)
		r.Refilled = left - r.Available
	}

	switch r.Allowed = true; {
	case op >= algorithm.Refund:
		inUse = next.adjust(op, r, inUse)
		used, part = inUse.DivMod(period)
		left = max(o.unitsLeft(used, part), math.MinInt64-min(r.Paid, 0))
		r.Available = left + r.Paid - r.Refilled // a clock that is behind may see fewer units than there are
	case cost > left:
		r.Allowed, r.RetryAfter = false, o.retry(inUse, cost)
	case op == algorithm.Step:
		r.Paid = cost
		left, used = left-cost, used+cost
		next.Used += cost
		inUse = inUse.Add(u128.Mul(cost, period))
	}

	r.Remaining = left
	if !inUse.IsZero() {
		untilNext := part // the weight that drains before the next unit
		if part == 0 {
			untilNext = period
		}
		r.NextRefill = time.Duration((uint64(untilNext)-1)/uint64(count) + 1)
		r.ResetAfter = time.Duration(inUse.CeilDiv(count))
		if used == math.MaxInt64 { // Remaining is at its minimum
			r.NextRefill = time.Duration(inUse.Sub(u128.Mul(math.MaxInt64-1, period)).CeilDiv(count))
		}
	}
	if r.Paid == 0 {
		return s
	}
	return next
}

// unitsLeft returns how much of the burst is left. It rounds down.
func (o *Options) unitsLeft(used, part int64) int64 {
	if part > 0 {
		used++
	}
	return o.burst() - used
}

// retry returns the time until a denied cost is allowed.
func (o *Options) retry(inUse u128.Uint, cost int64) time.Duration {
	if cost > o.burst() {
		return algo.Never
	}
	level := inUse.Add(u128.Mul(cost, int64(o.Limit.Period)))
	return time.Duration(level.Sub(o.capacity()).CeilDiv(o.Limit.Count))
}
