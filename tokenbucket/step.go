package tokenbucket

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Step decides a request of o.Cost tokens at now. It is total: any state, any
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

// Refund gives o.Cost tokens back, up to full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideAt(s, now, &o, &r, refund)
	return next, r
}

// Charge takes o.Cost tokens unconditionally. What is not there becomes a debt,
// of at most 2^62 tokens, or of what is regained by 2^63-1 ns if that is less.
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
func decideAt(s State, at time.Time, o *Options, r *algo.Result, to purpose) State {
	return decide(s, algo.Instant(at), o, r, to)
}

// decide fills in r, which comes with nothing but its Cost; 0 is that of the
// options. It returns s itself where nothing is paid.
//
// Both refills count alike. A refill of batch tokens is due whenever a weight of
// Limit.Period has accrued, and speed of that weight accrues every nanosecond.
//
// It is one long function, behind exported ones that are small enough to be
// inlined, because it is what every request pays: a Result handed on through the
// stack costs as much as two divisions.
func decide(s State, at int64, o *Options, r *algo.Result, to purpose) State {
	burst, period, cost := o.burst(), int64(o.Limit.Period), r.Cost
	if cost == 0 {
		cost = o.cost()
	}
	r.Cost = cost
	if !o.inRange() || !o.regains(burst) {
		r.RetryAfter = algo.Never
		return s
	}
	r.Limit = burst

	was := s
	if !was.isNormal(o.Limit.Period) {
		was = was.under(o)
	}
	used, part := was.Used, was.Part
	switch since := at - was.At; {
	case used == 0:
	case since < 0:
		at, r.Skew = was.At, time.Duration(-since)
	default:
		weight := u128.Mul(since, o.speed()).Add(u128.From(part))
		refills, rest := int64(0), int64(weight.Lo)
		switch { // the common cases need no division
		case weight.Hi > 0 || weight.Lo >= 2*uint64(period):
			refills, rest = weight.DivMod(period)
		case weight.Lo >= uint64(period):
			refills, rest = 1, rest-period
		}
		r.Refilled = o.tokens(refills)
		used, part = used-r.Refilled, rest
	}
	if used > 0 {
		r.Available = burst - was.Used
	} else {
		used, part = 0, 0
		r.Fresh, r.Refilled = true, burst
	}

	paid, denied := cost, false
	switch {
	case to == refund:
		paid = -min(cost, used)
	case to == charge:
		paid = min(cost, o.room(used, part, at))
	case cost > burst-used:
		paid, denied = 0, true
	case to == look:
		paid = 0
	}
	r.Allowed, r.Paid = !denied, paid
	used += paid

	r.Remaining = burst - used
	if used > 0 {
		r.NextRefill = r.Skew + o.ceil(uint64(period-part))
		r.ResetAfter = o.regain(o.refills(used), part, r)
	}
	if denied {
		r.RetryAfter = o.retry(part, r)
	}
	switch {
	case paid == 0:
		return s
	case used == 0:
		return State{}
	}
	return State{used, at, part, o.Limit.Period}
}

// retry is how long until the cost is there, which is more than what remains.
func (o *Options) retry(part int64, r *algo.Result) time.Duration {
	if r.Cost > r.Limit {
		return algo.Never
	}
	return o.regain(o.refills(r.Cost-r.Remaining), part, r)
}

// regain is how long until so many refills have come, where so much of the next one
// has accrued, and r tells when that is due.
func (o *Options) regain(refills, part int64, r *algo.Result) time.Duration {
	if refills == 1 {
		return r.NextRefill
	}
	return o.accrue(refills, part, r)
}

// accrue is regain by the weight of the refills.
func (o *Options) accrue(refills, part int64, r *algo.Result) time.Duration {
	weight := u128.Mul(refills, int64(o.Limit.Period)).Sub(u128.From(part))
	if weight.Hi == 0 && weight.Lo < algo.MaxCount {
		return r.Skew + o.ceil(weight.Lo)
	}
	ns := weight.CeilDiv(o.speed())
	if ns > math.MaxInt64-int64(r.Skew) {
		return math.MaxInt64
	}
	return r.Skew + time.Duration(ns)
}

// ceil is the time in which that weight accrues, of which there is some.
func (o *Options) ceil(weight uint64) time.Duration {
	return time.Duration((weight-1)/uint64(o.speed()) + 1)
}

// room is the most that can be charged before the state would leave its range.
func (o *Options) room(used, part, at int64) int64 {
	refills, _ := u128.Mul(math.MaxInt64-at, o.speed()).Add(u128.From(part)).DivMod(int64(o.Limit.Period))
	most := u128.Mul(refills, o.batch())
	if u128.From(algo.MaxCount).Less(most) {
		return algo.MaxCount - used
	}
	return max(0, int64(most.Lo)-used)
}
