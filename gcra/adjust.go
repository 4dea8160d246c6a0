package gcra

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Refund gives o.Cost units back, up to full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, now, &o, &r, back)
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// of at most 2^62 units in use.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, now, &o, &r, more)
	return next, r
}

// way is where units go that are not asked for.
type way int64

const (
	back way = -1
	more way = +1
)

// adjust is decide for units that are given or taken whatever is there: it
// looks, moves them, and looks again.
func adjust(s State, now time.Time, o *Options, r *algo.Result, way way) State {
	if decide(s, now, o, r, look); r.Limit == 0 {
		return s
	}
	next := s.under(o.Limit.Period)
	next.drain(algo.Instant(now), o.Limit.Count)
	next.move(int64(way) * r.Cost)
	r.Allowed, r.RetryAfter = true, 0

	after := algo.Result{Cost: r.Cost}
	decide(next, now, o, &after, look)
	if after.Remaining == r.Remaining {
		return s
	}
	r.Paid = r.Remaining - after.Remaining
	r.Remaining, r.NextRefill, r.ResetAfter = after.Remaining, after.NextRefill, after.ResetAfter
	if after.Fresh {
		return State{}
	}
	return next
}
