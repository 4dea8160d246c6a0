package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
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

// purpose is what becomes of a request that is allowed.
type purpose bool

const (
	look purpose = false
	pay  purpose = true
)

// decideAt keeps the conversion of the time out of the exported functions, which
// could not be inlined with it.
func decideAt(s State, now time.Time, o *Options, r *algo.Result, to purpose) State {
	return decide(s, algo.Instant(now), o, r, to)
}

// decide fills in r, which comes with nothing but its Cost; 0 is that of the
// options. It returns s itself where nothing is paid.
//
// Use is weighed so that nothing is rounded: a unit weighs Limit.Period, and
// Limit.Count of that weight drains every nanosecond. What is owed at now weighs
// (TAT - now) * Limit.Count.
//
// It is one long function, behind exported ones that are small enough to be
// inlined, because it is what every request pays: a Result handed on through the
// stack costs as much as two divisions.
func decide(s State, now int64, o *Options, r *algo.Result, to purpose) State {
	count, period := o.Limit.Count, int64(o.Limit.Period)
	burst, cost := o.burst(), r.Cost
	if cost == 0 {
		cost = o.cost()
	}
	r.Cost = cost
	if !o.inRange() || !o.spans(u128.Mul(burst, period)) {
		r.RetryAfter = algo.Never
		return s
	}
	r.Limit = burst

	was := s
	if !was.isNormal(o.Limit.Period) {
		was = was.under(o.Limit.Period)
	}
	owed := was.weight()
	if now >= was.At {
		owed = owed.Sub(u128.Mul(now-was.At, count))
	} else {
		owed = owed.Add(u128.Mul(was.At-now, count))
		r.Skew = time.Duration(was.At - now)
	}
	used, part := owed.DivMod(period)
	left, next := burst-used, part // next: what drains until there is one unit more
	if part > 0 {
		left--
	} else {
		next = period
	}
	if owed.IsZero() {
		r.Fresh, r.Refilled = true, burst
	} else {
		r.Available = min(burst-was.ceil(), left)
		r.Refilled = left - r.Available
	}

	if r.Allowed = cost <= left; !r.Allowed {
		r.RetryAfter = o.retry(owed, cost)
	} else if to == pay {
		r.Paid = cost
		left, used = left-cost, used+cost
		owed = owed.Add(u128.Mul(cost, period))
	}

	r.Remaining = left
	if !owed.IsZero() {
		r.NextRefill = time.Duration((uint64(next)-1)/uint64(count) + 1)
		wait, rest := owed.DivMod(count)
		if rest > 0 {
			wait++
		}
		r.ResetAfter = time.Duration(wait)
		if used == math.MaxInt64 {
			r.NextRefill = o.untilTold(owed)
		}
	}
	switch {
	case r.Paid == 0:
		return s
	case now < was.At:
		was.Used += cost
		return was
	}
	return State{now, used, part, o.Limit.Period}
}

// retry is how long until a cost can be taken that cannot be taken now.
func (o *Options) retry(owed u128.Uint, cost int64) time.Duration {
	if cost > o.burst() {
		return algo.Never
	}
	level := owed.Add(u128.Mul(cost, int64(o.Limit.Period)))
	return time.Duration(level.Sub(o.capacity()).CeilDiv(o.Limit.Count))
}

// untilTold is how long until so little is owed that Remaining, which is at its
// least, can be one more.
func (o *Options) untilTold(owed u128.Uint) time.Duration {
	told := u128.Mul(math.MaxInt64-1, int64(o.Limit.Period))
	return time.Duration(owed.Sub(told).CeilDiv(o.Limit.Count))
}
