package algotest

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Subject is an algorithm with fixed options, for every limit.
type Subject struct {
	// Name describes the subject in failure messages.
	Name string

	// New returns the policy for a limit, or an error if the algorithm does not support the limit. It is required. A law fails if
	// New refuses nearly all limits.
	New func(algo.Limit) (algo.Policy, error)

	// Oracle returns a slow and independent implementation of the same algorithm, such as Bucket. AccountsAddUp compares with it
	// unless it is nil.
	Oracle func(algo.Limit) Oracle

	// Recode decodes a state and encodes it again:
	//
	//	s, err := gcra.ParseState(state)
	//	return gcra.AppendState(nil, s), err
	//
	// For empty bytes it returns the encoding of the zero State. It may be nil.
	Recode func(state []byte) ([]byte, error)

	// Windowed means that units come back when a window ends, or one period after they were taken. LimitMayChange then checks a
	// changed period only for keys that were new before their last operation. BoundHolds adds the whole cost of a refund to the
	// bound.
	Windowed bool

	// Composed means that the policy has parts, and each value of a result can come from another one. BoundHolds treats refunds
	// as for Windowed. The laws do not check
	//
	//  - that Available is what the previous operation left
	//  - that just before ResetAfter the decision differs from that for a new key; it is enough that some field of the result
	//    does
	//  - the states after the clock stepped back, if the key has had a refund
	//  - Paid of a refund or a charge if the clock is behind the state
	//  - the units in use after a change of the limit, unless the key was new before its last operation
	//  - the method Limit
	Composed bool

	// Allocates turns off NoAllocations.
	Allocates bool

	// HeldAtMost returns how long a unit is held at most without release and renewal. Only RunHolds needs it.
	HeldAtMost func(algo.Limit) time.Duration

	// Tick is the shortest period of the small limits, and the step between the instants tried, in whole microseconds; 0 means
	// 1us. Set it if New refuses short periods.
	Tick time.Duration

	effort effort // zero: defaultEffort
}

// Run tests each law in a subtest with its name, such as TestLaws/RetryIsExact.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for i, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			t.Helper()
			law.test(t, s, i+1)
		})
	}
}
