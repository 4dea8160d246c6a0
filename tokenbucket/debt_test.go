package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/tokenbucket"
)

// A debt weighs at most algo.MaxLevel, and is refilled within 2^52us.
func TestDebtIsLimited(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		o    tokenbucket.Options
		most int64 // missing tokens
	}{
		{tokenbucket.Options{Limit: algo.Per(5, 7*time.Microsecond)}, algo.MaxLevel / 7},
		{tokenbucket.Options{Limit: algo.Per(algo.MaxCount, time.Microsecond)}, algo.MaxLevel},
		{tokenbucket.Options{Limit: algo.Per(1, year), Burst: 4}, 142},
		{tokenbucket.Options{Limit: algo.Per(10, year), Burst: 4}, 1428},
		{tokenbucket.Options{Limit: algo.Per(10, year), Burst: 4, Refill: tokenbucket.Interval}, 1420},
		{tokenbucket.Options{Limit: algo.Per(algo.MaxCount, time.Second), Refill: tokenbucket.Interval}, algo.MaxLevel},
	} {
		for _, at := range []int64{0, start.UnixMicro(), algo.MaxInstant} {
			s, _ := kit.CallAt(tokenbucket.State{}, policy.Charge, at, c.o, 1)
			for _, now := range []int64{at, at / 2, 0} { // a clock that is behind cannot charge more
				full, r := kit.CallAt(s, policy.Charge, now, c.o, math.MaxInt64)
				require.Equal(t, c.most-1, r.Paid, "%+v at %d", c.o, now)
				require.True(t, r.Allowed)
				require.LessOrEqual(t, r.ResetAfter.Microseconds(), int64(1<<52)+at-now)
				more, r := kit.CallAt(full, policy.Charge, now, c.o, 1)
				require.Zero(t, r.Paid)
				require.Equal(t, full, more)
			}
		}
	}
}

// A lowered limit makes a large debt. It is cut to one that the new limit can refill.
func TestDebtOfALoweredLimitIsRefilled(t *testing.T) {
	fast := tokenbucket.Options{Limit: algo.Per(algo.MaxCount, time.Microsecond)}
	s, _ := kit.CallAt(tokenbucket.State{}, policy.Step, 1000, fast, algo.MaxCount)
	for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
		slow := tokenbucket.Options{Limit: algo.Per(3, 36500*24*time.Hour/2), Refill: refill}
		for _, at := range []int64{0, 1000} {
			_, r := kit.CallAt(s, policy.Step, at, slow, 1)
			require.False(t, r.Allowed)
			require.Less(t, r.RetryAfter, algo.Never)
			require.Less(t, r.NextRefill, r.RetryAfter)
			require.LessOrEqual(t, r.RetryAfter, r.ResetAfter)
			require.LessOrEqual(t, r.ResetAfter.Microseconds(), int64(1<<52)+1000)
			_, r = kit.CallAt(s, policy.Charge, at, slow, 1)
			require.Zero(t, r.Paid)
		}
	}
}
