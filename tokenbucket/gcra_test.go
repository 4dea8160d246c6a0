package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/tokenbucket"
)

// While the clock does not step back, every result and every state is that of gcra, even if the limit changes.
func TestContinuousRefillDecidesLikeGCRA(t *testing.T) {
	random := sample.New(2, 2)
	for range policytest.Rounds(10_000) {
		var bucket tokenbucket.State
		var cells gcra.State
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		for range 12 {
			if random.IntN(8) == 0 {
				o = anyOptions(random)
			}
			o.Refill = tokenbucket.Continuous
			if o.Validate() != nil { // interval refill allows more
				o.Burst = 1
			}
			at := time.UnixMicro(now)
			o.Cost = random.Cost(tokenbucket.Peek(bucket, at, o))
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			var got, want algo.Result
			bucket, got = kit.Call(bucket, op, at, o)
			cells, want = callGCRA(cells, op, at, gcra.Options{Limit: o.Limit, Burst: o.Burst, Cost: o.Cost})
			require.Equal(t, want, got, "%v at %d under %+v", op, now, o)
			require.Equal(t, cells, gcra.State(bucket))
			now = random.Time(now, got, o.Limit.Period, false)
		}
	}
}

func callGCRA(s gcra.State, op policy.Op, now time.Time, o gcra.Options) (gcra.State, algo.Result) {
	switch op {
	case policy.Step:
		return gcra.Step(s, now, o)
	case policy.Refund:
		return gcra.Refund(s, now, o)
	case policy.Charge:
		return gcra.Charge(s, now, o)
	}
	return s, gcra.Peek(s, now, o)
}
