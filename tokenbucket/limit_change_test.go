package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestSameRateWrittenDifferentlyHasTheSameWaits(t *testing.T) {
	spellings := []algo.Limit{algo.Per(60, time.Minute), algo.Per(1, time.Second), algo.Per(3600, time.Hour), algo.Per(2, 2*time.Second)}
	for _, from := range spellings {
		for _, to := range spellings {
			o := tokenbucket.Options{Limit: from, Burst: 2}
			s, _ := tokenbucket.Step(tokenbucket.State{}, start, o)
			now := start.Add(500 * time.Millisecond)
			s, _ = tokenbucket.Step(s, now, o)
			o.Limit = to
			r := tokenbucket.Peek(s, now, o)
			require.False(t, r.Allowed)
			require.Equal(t, 500*time.Millisecond, r.RetryAfter, "%v to %v", from, to)
			require.Equal(t, 1500*time.Millisecond, r.ResetAfter, "%v to %v", from, to)
		}
	}
}

func TestChangedLimitKeepsTheStartOfTheInterval(t *testing.T) {
	for _, c := range []struct {
		from, to algo.Limit
		after    time.Duration
		retry    time.Duration
	}{
		{algo.Per(60, time.Minute), algo.Per(1, time.Second), 500 * time.Millisecond, 500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(1, time.Second), 30500 * time.Millisecond, 500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(1000, time.Second), 59 * time.Second, time.Second},
		{algo.Per(1, time.Second), algo.Per(60, time.Minute), 500 * time.Millisecond, 59500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(120, 2*time.Minute), 59 * time.Second, 61 * time.Second},
		{algo.Per(60, time.Minute), algo.Per(60, 60*time.Second), 59 * time.Second, time.Second},
	} {
		o := tokenbucket.Options{Limit: c.from, Burst: 2, Refill: tokenbucket.Interval}
		s, _ := tokenbucket.Step(tokenbucket.State{}, start, o)
		now := start.Add(c.after)
		s, _ = tokenbucket.Step(s, now, o)
		o.Limit = c.to
		require.Equal(t, c.retry, tokenbucket.Peek(s, now, o).RetryAfter, "%v to %v after %v", c.from, c.to, c.after)
	}
}

// Two policies that use one key in turns must not refill before an interval has passed.
func TestAlternatingLimitsAddNoTokens(t *testing.T) {
	fast := tokenbucket.Options{Limit: algo.Per(1, time.Second), Burst: 60, Refill: tokenbucket.Interval}
	slow := fast
	slow.Limit = algo.Per(60, time.Minute)
	fast.Cost, slow.Cost = 60, 60
	s, _ := tokenbucket.Step(tokenbucket.State{}, start, fast)
	fast.Cost, slow.Cost = 1, 1
	var admitted int64
	for i := range 300 {
		var r algo.Result
		now := start.Add(time.Duration(i) * 99 * time.Millisecond) // 29.6 seconds
		s, r = tokenbucket.Step(s, now, []tokenbucket.Options{fast, slow}[i%2])
		admitted += r.Paid
	}
	require.LessOrEqual(t, admitted, int64(29))
}

func TestChangedPeriodRoundsDown(t *testing.T) {
	s := tokenbucket.State{Used: 3, At: 5, Part: 2, Period: 3}
	for period, part := range map[time.Duration]int64{1: 0, 2: 1, 3: 2, 4: 2, 6: 4, 10: 6, 1 << 62: 1 << 63 / 3} {
		next, r := kit.CallAt(s, algorithm.Charge, 5, tokenbucket.Options{Limit: algo.Per(1, period), Burst: 1}, 1)
		if r.Paid == 1 {
			require.Equal(t, tokenbucket.State{Used: 4, At: 5, Part: part, Period: period}, next)
		}
		require.Equal(t, period-time.Duration(part), r.NextRefill, period)
	}
}

func TestContinuousRefillDecidesLikeGCRAIfTheLimitChanges(t *testing.T) {
	random := sample.New(4, 4)
	for range algorithmtest.Rounds(5000) {
		var bucket tokenbucket.State
		var cells gcra.State
		now := random.UpTo(algo.MaxInstant)
		for range 12 {
			o := anyOptions(random)
			o.Refill = tokenbucket.Continuous
			op := algorithm.Op(random.IntN(3)) // no charges, because their maximum differs
			cost := random.UpTo(tokenbucket.Peek(bucket, time.Unix(0, now), o).Limit)
			var got, want algo.Result
			bucket, got = kit.CallAt(bucket, op, now, o, cost)
			cells, want = callGCRA(cells, op, now, o, cost)
			require.Equal(t, want, got, "%+v: operation %d at %d, cost %d", o, op, now, cost)
			by := []int64{0, 1, int64(got.NextRefill), random.UpTo(int64(o.Limit.Period))}[random.IntN(4)]
			if by <= algo.MaxInstant-now {
				now += by
			}
		}
	}
}
