package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Refund gives o.Cost units back, up to full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, algo.Instant(now), &o, &r, back)
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// of at most 2^62 units in use.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, algo.Instant(now), &o, &r, more)
	return next, r
}

// direction is where units go that are not asked for.
type direction int64

const (
	back direction = -1
	more direction = +1
)

// adjust is decide for units that are given or taken whatever is there: it
// looks, moves them, and looks again.
func adjust(s State, now int64, o *Options, r *algo.Result, way direction) State {
	if decide(s, now, o, r, look); r.Limit == 0 {
		return s
	}
	was := s.under(o.Limit.Period)
	was.drain(now, o.Limit.Count)
	next := was
	next.move(int64(way) * r.Cost)
	r.Allowed, r.RetryAfter = true, 0

	after := algo.Result{Cost: r.Cost}
	decide(next, now, o, &after, look)
	paid := r.Remaining - after.Remaining
	if least := r.Limit - math.MaxInt64; min(r.Remaining, after.Remaining) == least {
		paid = next.Used - was.Used // more is in use than Remaining can tell
	}
	if paid == 0 {
		return s
	}
	settle(r, paid, &after)
	if after.Fresh {
		return State{}
	}
	return next
}

// settle fills in what was paid and what is left after it. Where Remaining is at
// its least, Available gives way to it, so that they still add up.
func settle(r *algo.Result, paid int64, after *algo.Result) {
	r.Paid = paid
	r.Remaining = max(after.Remaining, math.MinInt64-min(paid, 0))
	r.Available = r.Remaining + paid - r.Refilled
	r.NextRefill, r.ResetAfter = after.NextRefill, after.ResetAfter
}
