package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Refund gives o.Cost units back, at most until the key is full. If now is before s.At,
// Refund uses s.At.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, algo.Instant(now), &o, &r, giveBack)
	return next, r
}

// Charge takes o.Cost units, even if fewer are left. The missing units become a debt. At
// most 2^62 units can be in use; Charge takes fewer rather than exceed that. If now is
// before s.At, Charge uses s.At.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = adjust(s, algo.Instant(now), &o, &r, take)
	return next, r
}

// direction is the sign of the units that an adjustment adds to those in use.
type direction int64

const (
	giveBack direction = -1
	take     direction = +1
)

// adjust gives back or takes r.Cost units. With a clock that is behind it moves the units
// at the state's own time, so a refund that fills the key fills it for every clock. But
// Remaining and the waits in r are those that this clock sees.
func adjust(s State, now int64, o *Options, r *algo.Result, sign direction) State {
	if decide(s, now, o, r, opPeek); r.Limit == 0 {
		return s
	}
	before := s.withPeriod(o.Limit.Period)
	before.drain(now, o.Limit.Count)
	next := before
	next.addUsed(int64(sign) * r.Cost)
	r.Allowed, r.RetryAfter = true, 0

	paid := next.usedRoundedUp() - before.usedRoundedUp()
	switch {
	case paid == 0:
		return s
	case next.usedRoundedUp() == 0:
		next = State{}
	}
	after := algo.Result{Cost: r.Cost}
	decide(next, now, o, &after, opPeek)
	r.Paid = paid
	r.Remaining = max(after.Remaining, math.MinInt64-min(paid, 0))
	// A clock that is behind may see fewer units than there are.
	r.Available = r.Remaining + paid - r.Refilled
	r.NextRefill, r.ResetAfter = after.NextRefill, after.ResetAfter
	return next
}
