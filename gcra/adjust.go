package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Refund gives o.Cost units back, up to full. A now before s.At counts as s.At.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, algo.Instant(now), &o, &r, back)
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// of at most 2^62 units in use. A now before s.At counts as s.At.
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

// adjust gives or takes units whatever is there. A clock that is behind moves them
// at the state's own time: what is used then is what counts, and a refund that fills
// the bucket fills it for every clock. Only what is left after it, and the waits, are
// told as that clock sees them.
func adjust(s State, now int64, o *Options, r *algo.Result, way direction) State {
	if decide(s, now, o, r, look); r.Limit == 0 {
		return s
	}
	was := s.under(o.Limit.Period)
	was.drain(now, o.Limit.Count)
	next := was
	next.move(int64(way) * r.Cost)
	r.Allowed, r.RetryAfter = true, 0

	paid := next.ceil() - was.ceil()
	switch {
	case paid == 0:
		return s
	case next.ceil() == 0:
		next = State{}
	}
	after := algo.Result{Cost: r.Cost}
	decide(next, now, o, &after, look)
	settle(r, paid, &after)
	return next
}

// settle fills in what was paid and what is left after it. Available gives way where
// a clock that is behind sees less than there is, so that the accounts add up.
func settle(r *algo.Result, paid int64, after *algo.Result) {
	r.Paid = paid
	r.Remaining = max(after.Remaining, math.MinInt64-min(paid, 0))
	r.Available = r.Remaining + paid - r.Refilled
	r.NextRefill, r.ResetAfter = after.NextRefill, after.ResetAfter
}
