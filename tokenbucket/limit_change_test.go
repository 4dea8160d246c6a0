package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
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

func TestPartOfATokenCountsAsAWholeTokenAfterAChange(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(2, time.Second)}
	s, _ := tokenbucket.Step(tokenbucket.State{}, start, o)
	now := start.Add(400 * time.Millisecond)
	s, r := tokenbucket.Step(s, now, o) // 1.2 tokens are missing
	require.Equal(t, 100*time.Millisecond, r.NextRefill)

	r = tokenbucket.Peek(s, now, tokenbucket.Options{Limit: algo.Per(2000, time.Second)})
	require.EqualValues(t, 1998, r.Remaining)
	require.Equal(t, 500*time.Microsecond, r.NextRefill)

	r = tokenbucket.Peek(s, now.Add(time.Millisecond), tokenbucket.Options{Limit: algo.Per(2000, time.Second)})
	require.EqualValues(t, 2000, r.Remaining, "the time since the last paid step counts at the new rate")
}

func TestChangedLimitKeepsTheStartOfTheInterval(t *testing.T) {
	for _, c := range []struct {
		from, to algo.Limit
		after    time.Duration
		left     int64
		next     time.Duration
	}{
		{algo.Per(60, time.Minute), algo.Per(1, time.Second), 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(1, time.Second), 30500 * time.Millisecond, 0, 500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(1000, time.Second), 59 * time.Second, 0, time.Second},
		{algo.Per(1, time.Second), algo.Per(60, time.Minute), 500 * time.Millisecond, 0, 59500 * time.Millisecond},
		{algo.Per(1, time.Second), algo.Per(60, time.Minute), 30500 * time.Millisecond, 30, 59500 * time.Millisecond},
		{algo.Per(60, time.Minute), algo.Per(120, 2*time.Minute), 59 * time.Second, 0, 61 * time.Second},
		{algo.Per(60, time.Minute), algo.Per(60, 60*time.Second), 59 * time.Second, 0, time.Second},
	} {
		o := tokenbucket.Options{Limit: c.from, Burst: 90, Cost: 89, Refill: tokenbucket.Interval}
		s, _ := tokenbucket.Step(tokenbucket.State{}, start, o)
		o.Cost = 1
		now := start.Add(c.after)
		s, r := tokenbucket.Step(s, now, o)
		require.True(t, r.Allowed)
		o.Limit = c.to
		r = tokenbucket.Peek(s, now, o)
		require.Equal(t, c.left, r.Remaining, "%v to %v after %v", c.from, c.to, c.after)
		require.Equal(t, c.next, r.NextRefill, "%v to %v after %v", c.from, c.to, c.after)
	}
}

// Two policies that use one key in turns must not refill more than the faster one.
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
