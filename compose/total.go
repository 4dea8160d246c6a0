package compose

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// A total adds up the answers of a stack's parts.
type total struct {
	algo.Result
	before int64  // the least that a part had before it paid
	lapsed uint64 // a bit for every part that was fresh
}

func newTotal() total {
	return total{before: math.MaxInt64, Result: algo.Result{
		Allowed:   true,
		Limit:     math.MaxInt64,
		Available: math.MaxInt64,
		Remaining: math.MaxInt64,
		Fresh:     true,
	}}
}

func (t *total) add(part int, r *algo.Result) {
	switch {
	case r.Remaining < t.Remaining:
		t.Remaining, t.Paid, t.NextRefill = r.Remaining, r.Paid, r.NextRefill
		if t.Allowed {
			t.Part, t.Cost = part, r.Cost
		}
	case r.Remaining == t.Remaining:
		t.NextRefill = both(t.NextRefill, r.NextRefill)
	}
	if !r.Allowed && (t.Allowed || r.RetryAfter > t.RetryAfter) {
		t.Part, t.Cost = part, r.Cost
	}
	t.Allowed = t.Allowed && r.Allowed
	t.Fresh = t.Fresh && r.Fresh
	if r.Fresh {
		t.lapsed |= 1 << part
	} else {
		t.Available = min(t.Available, r.Available)
	}
	t.before = min(t.before, r.Remaining+r.Paid)
	t.Limit = min(t.Limit, r.Limit)
	t.RetryAfter = max(t.RetryAfter, r.RetryAfter)
	t.ResetAfter = max(t.ResetAfter, r.ResetAfter)
	t.Skew = max(t.Skew, r.Skew)
}

// both is when two parts that have equally little have both grown: the later of
// the two, or never (0) if one of them is full.
func both(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// settle completes the answer of the stack to a move from state.
func (s *Stack) settle(t *total, state []byte, cost int64) (algo.Result, error) {
	if cost < 0 {
		return algo.Result{}, algo.ErrCost
	}
	if len(s.all()) == 0 {
		return algo.Result{Cost: max(cost, 1), RetryAfter: algo.Never}, nil
	}
	switch {
	case t.Fresh:
		t.Available = 0
	case t.lapsed != 0:
		s.recall(t, state)
	}
	if t.Paid <= 0 { // of a refund, the part that is now least need not be the one that was
		t.Paid = t.before - t.Remaining
	}
	t.Refilled = t.Remaining + t.Paid - t.Available
	return t.Result, nil
}

// recall makes Available exact where some parts have lapsed and others not: of
// what the last step to pay left in them, the lapsed say nothing any more, unless
// asked as of that step. When it was is told by how far the state is ahead of an
// instant before all states.
func (s *Stack) recall(t *total, state []byte) {
	epoch := time.Unix(0, 0)
	f, _ := openFrame(state)
	for i, part := range s.all() {
		own := f.next()
		if t.lapsed&(1<<i) == 0 {
			continue
		}
		r, _ := part.Peek(own, epoch, 1)
		r, _ = part.Peek(own, epoch.Add(r.Skew), 1)
		t.Available = min(t.Available, r.Remaining)
	}
}
