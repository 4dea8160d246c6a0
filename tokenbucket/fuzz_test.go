package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/tokenbucket"
)

// FuzzStep checks results that need no history: sums and waits, for any state, time and options.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, burst, refill, cost, used, at, part, under, sec, nsec int64) {
		o := tokenbucket.Options{Limit: algo.Per(count, time.Duration(period)), Burst: burst, Refill: tokenbucket.Refill(refill), Cost: cost}
		s := tokenbucket.State{Used: used, At: at, Part: part, Period: time.Duration(under)}
		now := time.Unix(sec, nsec)
		kit.EachOp(t, s, now, o, func(op algorithm.Op, next tokenbucket.State, r algo.Result) {
			if r.Paid == 0 {
				return
			}
			again, err := tokenbucket.ParseState(tokenbucket.AppendState(nil, next))
			require.NoError(t, err)
			require.Equal(t, next, again)
			after := tokenbucket.Peek(next, now, o)
			require.Equal(t, r.Remaining, after.Remaining)
			require.Equal(t, r.ResetAfter, after.ResetAfter)
		})
		kit.RequireWaits(t, s, algo.Instant(now), o)
	})
}

func FuzzDecode(f *testing.F) {
	continuous := tokenbucket.Options{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2}
	interval := continuous
	interval.Refill = tokenbucket.Interval
	f.Fuzz(func(t *testing.T, b []byte) {
		kit.CheckDecode(t, b, func(s tokenbucket.State) int64 { return s.At }, continuous, interval)
	})
}
