package compose

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// stackResult combines the results of the parts of a Stack.
type stackResult struct {
	algo.Result
	before     int64  // the least that a part had before it paid
	freshParts uint64 // one bit for each fresh part
}

func newStackResult() stackResult {
	return stackResult{before: math.MaxInt64, Result: algo.Result{
		Allowed:   true,
		Limit:     math.MaxInt64,
		Available: math.MaxInt64,
		Remaining: math.MaxInt64,
		Fresh:     true,
	}}
}

func (t *stackResult) add(part int, r *algo.Result) {
	switch {
	case r.Remaining < t.Remaining:
		t.Remaining, t.Paid, t.NextRefill = r.Remaining, r.Paid, r.NextRefill
		if t.Allowed {
			t.Part, t.Cost = part, r.Cost
		}
	case r.Remaining == t.Remaining && min(t.NextRefill, r.NextRefill) == 0: // one is full
		t.NextRefill = 0
	case r.Remaining == t.Remaining:
		t.NextRefill = max(t.NextRefill, r.NextRefill)
	}
	if !r.Allowed && (t.Allowed || r.RetryAfter > t.RetryAfter) {
		t.Part, t.Cost = part, r.Cost
	}
	t.Allowed = t.Allowed && r.Allowed
	t.Fresh = t.Fresh && r.Fresh
	if r.Fresh {
		t.freshParts |= 1 << part
	} else {
		t.Available = min(t.Available, r.Available)
	}
	t.before = min(t.before, r.Remaining+r.Paid)
	t.Limit = min(t.Limit, r.Limit)
	t.RetryAfter = max(t.RetryAfter, r.RetryAfter)
	t.ResetAfter = max(t.ResetAfter, r.ResetAfter)
	t.Skew = max(t.Skew, r.Skew)
}

// finish returns the result of an operation on state after all parts are added.
func (s *Stack) finish(t *stackResult, state []byte, cost int64) (algo.Result, error) {
	if cost < 0 {
		return algo.Result{}, algo.ErrCost
	}
	if len(s.all()) == 0 {
		return algo.Result{Cost: max(cost, 1), RetryAfter: algo.Never}, nil
	}
	switch {
	case t.Fresh:
		t.Available = 0
	case t.freshParts != 0:
		s.addExpiredAvailable(t, state)
	}
	if t.Paid <= 0 { // a refund can change which part has the least
		t.Paid = t.before - t.Remaining
	}
	t.Refilled = t.Remaining + t.Paid - t.Available
	return t.Result, nil
}

// addExpiredAvailable corrects Available if some parts have expired and others have not. An
// expired part no longer reports the units that its last step left, except at the time of that
// step. That time is found by a Peek long before it, whose Skew is the distance.
func (s *Stack) addExpiredAvailable(t *stackResult, state []byte) {
	epoch := time.Unix(0, 0)
	states, _ := decodeStates(state)
	for i, part := range s.all() {
		own := states.next()
		if t.freshParts&(1<<i) == 0 {
			continue
		}
		r, _ := part.Peek(own, epoch, 1)
		r, _ = part.Peek(own, epoch.Add(r.Skew), 1)
		t.Available = min(t.Available, r.Remaining)
	}
}
