package tokenbucket

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// Step decides a request of o.Cost tokens at now. It accepts any state, any time and any
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

// Refund gives o.Cost tokens back, at most until the bucket is full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Refund)
	return next, r
}

// Charge takes o.Cost tokens, even if fewer are left, and leaves a debt. It takes fewer if more than
// 2^62 tokens would be missing, or if the bucket would not be full again by April 2262, which is
// the latest time that fits into an int64 of nanoseconds.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, algorithm.Charge)
	return next, r
}

// decideAt converts the time. The exported functions could not be inlined if they did.
func decideAt(s State, at time.Time, o *Options, r *algo.Result, op algorithm.Op) State {
	return decide(s, algo.Instant(at), o, r, op)
}

// decide fills in r, of which only Cost is set; a Cost of 0 means that of the options. It
// returns s if nothing is paid.
//
// Both kinds of refill use the same arithmetic. Every nanosecond accrues a weight of
// speed(). When a weight of Limit.Period has accrued, batch() tokens are added.
//
// decide is one long function for speed: passing a Result through the stack takes as long
// as two divisions. The exported functions are short enough to be inlined.
func decide(s State, at int64, o *Options, r *algo.Result, op algorithm.Op) State {
	burst, period := o.burst(), int64(o.Limit.Period)
	if r.Cost == 0 {
		r.Cost = algorithm.Or(o.Cost, 1)
	}
	cost := r.Cost
	if !o.inRange() || !o.refillsInTime(o.weight(burst)) {
		r.RetryAfter = algo.Never
		return s
	}
	r.Limit = burst

	before := s
	if !algorithm.Usage(before).IsNormal(o.Limit.Period) {
		before = before.withPeriod(o)
	}
	used, part := before.Used, before.Part
	switch since := at - before.At; {
	case used == 0:
	case since < 0:
		at, r.Skew = before.At, time.Duration(-since)
	default:
		weight := u128.Mul(since, o.speed()).Add(u128.From(part))
		refills, rest := weight.DivMod(period)
		r.Refilled = o.tokens(refills)
		used, part = used-r.Refilled, rest
	}
	if used > 0 {
		r.Available = burst - before.Used
	} else {
		used, part = 0, 0
		r.Fresh, r.Refilled = true, burst
	}

	paid, denied := cost, false
	switch {
	case op == algorithm.Refund:
		paid = -min(cost, used)
	case op == algorithm.Charge:
		paid = min(cost, o.chargeable(used, part, at))
	case cost > burst-used:
		paid, denied = 0, true
	case op == algorithm.Peek:
		paid = 0
	}
	r.Allowed, r.Paid = !denied, paid
	used += paid

	r.Remaining = burst - used
	if used > 0 {
		r.NextRefill = r.Skew + time.Duration((uint64(period-part)-1)/uint64(o.speed())+1)
		r.ResetAfter = o.untilRefills(o.refills(used), part, r)
	}
	switch {
	case denied && cost > burst:
		r.RetryAfter = algo.Never
	case denied:
		r.RetryAfter = o.untilRefills(o.refills(cost-r.Remaining), part, r)
	}
	switch {
	case paid == 0:
		return s
	case used == 0:
		return State{}
	}
	return State{at, used, part, o.Limit.Period}
}

// untilRefills returns the time until that many refills. part is the weight that has
// accrued for the next one, and r.NextRefill is the time until that.
func (o *Options) untilRefills(refills, part int64, r *algo.Result) time.Duration {
	if refills == 1 {
		return r.NextRefill
	}
	weight := u128.Mul(refills, int64(o.Limit.Period)).Sub(u128.From(part))
	return time.Duration(min(weight.CeilDiv(o.speed()), math.MaxInt64-int64(r.Skew))) + r.Skew
}

// chargeable returns the most tokens that can be charged before the state leaves its range.
func (o *Options) chargeable(used, part, at int64) int64 {
	refills, _ := u128.Mul(math.MaxInt64-at, o.speed()).Add(u128.From(part)).DivMod(int64(o.Limit.Period))
	most := u128.Mul(refills, o.batch())
	if u128.From(algo.MaxCount).Less(most) {
		return algo.MaxCount - used
	}
	return max(0, int64(most.Lo)-used)
}
