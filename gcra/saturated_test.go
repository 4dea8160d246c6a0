package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// A clock that is far behind a fast limit sees more in use than can be told. What
// is charged and refunded by it counts all the same.
func TestUnitsMoveWhereRemainingIsAtItsLeast(t *testing.T) {
	for _, burst := range []int64{1, 1000, 1e18} {
		o := gcra.Options{Limit: algo.Per(1e18, time.Second), Burst: burst, Cost: 1}
		paid, behind := y2k.Add(40*time.Second), y2k.Add(20*time.Second)
		s, _ := gcra.Step(gcra.State{}, paid, o)

		for _, cost := range []int64{1, 1000, algo.MaxCount - 1} {
			o.Cost = cost
			charged, r := gcra.Charge(s, behind, o)
			addsUp(t, charge, r)
			require.Equal(t, cost, r.Paid)
			require.Equal(t, s.Used+cost, charged.Used)
			require.Equal(t, burst-math.MaxInt64, r.Remaining)

			o.Cost = math.MaxInt64
			returned, r := gcra.Refund(charged, behind, o)
			addsUp(t, refund, r)
			require.Equal(t, -1-cost, r.Paid)
			require.Zero(t, returned.Used)
		}
	}
}

func TestTheNextRefillWhereRemainingIsAtItsLeast(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(1e18, time.Second)}
	s, _ := gcra.Step(gcra.State{}, y2k.Add(40*time.Second), o)
	behind := y2k.Add(20 * time.Second)
	r := gcra.Peek(s, behind, o)
	require.Equal(t, r.Remaining, gcra.Peek(s, behind.Add(r.NextRefill-1), o).Remaining)
	require.Greater(t, gcra.Peek(s, behind.Add(r.NextRefill), o).Remaining, r.Remaining)
	require.LessOrEqual(t, r.NextRefill, r.ResetAfter)
}
