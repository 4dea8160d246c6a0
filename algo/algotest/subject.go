package algotest

import (
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// Subject is an algorithm with fixed options, for every limit.
type Subject struct {
	// Name describes the algorithm and its options in failure messages.
	Name string

	// New returns the policy for a limit, always with the same algorithm and options. It
	// is required. If the limit is outside the algorithm's range, New returns an error and
	// the limit is skipped. A law fails if New refuses nearly all limits, or if it returns
	// neither a policy nor an error.
	New func(algo.Limit) (algo.Policy, error)

	// Oracle returns a slow and independent implementation of the same algorithm; see
	// Bucket, IntervalBucket, WindowFromFirst, WindowByClock and MovingWindow. If it is
	// nil, AccountsAddUp does not compare with it.
	Oracle func(algo.Limit) Oracle

	// Recode decodes a state and encodes it again:
	//
	//	s, err := gcra.ParseState(state)
	//	return gcra.AppendState(nil, s), err
	//
	// For empty bytes it returns the encoding of the zero State. If it is nil, NewKeyIsEmpty and
	// StateEncoding do not use it.
	Recode func(state []byte) ([]byte, error)

	// Windowed means that units come back when a window of one period ends. A changed period then
	// changes the windows. So LimitMayChange checks a changed period only for keys that were new before
	// their last operation. BoundHolds adds the whole cost of a refund to the bound, even if fewer units
	// (-Paid) came back. If neither Windowed nor Composed is set, it adds -Paid.
	Windowed bool

	// Composed means that the policy has parts. Its results combine those of the parts, and a value can
	// come from another part than before, so the laws are weaker. They do not check
	//
	//   - that Available is what the previous operation left
	//   - that 1ns before ResetAfter the decision differs from that for a new key; they check only
	//     that some field of the result differs
	//   - the states returned after the clock stepped back, if the key has had a refund
	//   - Paid of a refund or a charge if the clock is behind the state
	//   - how many units are in use after a change of the limit, unless the key was new before its
	//     last operation
	//   - the method Limit
	//
	// BoundHolds adds the whole cost of a refund to the bound, even if fewer units (-Paid) came back.
	Composed bool

	// Allocates turns NoAllocations off.
	Allocates bool

	effort effort // zero: defaultEffort
}

// Run tests every law, each in a subtest of t with the law's name. To run one law, use
// go test -run TestLaws/RetryIsExact, or TestLaws/.*/RetryIsExact if t is a subtest itself.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for i, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			t.Helper()
			law.test(t, s, i+1)
		})
	}
}
