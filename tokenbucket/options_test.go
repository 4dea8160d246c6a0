package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

// refused are options that New does not take, and what it says.
var refused = []struct {
	o    tokenbucket.Options
	want string
}{
	{tokenbucket.Options{}, "Limit.Count must be at least 1, got 0"},
	{tokenbucket.Options{Limit: algo.Per(-1, time.Second)}, "Limit.Count must be at least 1, got -1"},
	{tokenbucket.Options{Limit: algo.Per(math.MaxInt64, time.Second)}, "Limit.Count must be at most 2^62, got 9223372036854775807"},
	{tokenbucket.Options{Limit: algo.Per(1, 0)}, "Limit.Period must be at least 1ns, got 0s"},
	{tokenbucket.Options{Limit: algo.Per(1, -1)}, "Limit.Period must be at least 1ns, got -1ns"},
	{tokenbucket.Options{Limit: algo.Per(1, time.Second), Burst: -3}, "Burst must be at least 1, or 0 for the limit's count, got -3"},
	{tokenbucket.Options{Limit: algo.Per(1, time.Second), Burst: 1<<62 + 1}, "Burst must be at most 2^62, got 4611686018427387905"},
	{tokenbucket.Options{Limit: algo.Per(1, time.Second), Refill: 2}, "Refill must be Continuous or Interval, got 2"},
	{tokenbucket.Options{Limit: algo.Per(1, time.Second), Refill: -1}, "Refill must be Continuous or Interval, got -1"},
	{tokenbucket.Options{Limit: algo.Per(1, time.Second), Cost: -1}, "Cost is -1"},

	// 2^62 ns to regain the burst is the most.
	{tokenbucket.Options{Limit: algo.Per(1, 1<<62+1)}, "a burst of 1 at 1/"},
	{tokenbucket.Options{Limit: algo.Per(1, 1<<31), Burst: 1<<31 + 1}, "a burst of 2147483649 at 1/2.147483648s takes longer than 2^62 ns to regain"},
	{tokenbucket.Options{Limit: algo.Per(4, 1<<61), Burst: 9}, "a burst of 9 at 4/"},
	{tokenbucket.Options{Limit: algo.Per(4, 1<<61), Burst: 9, Refill: tokenbucket.Interval}, "a burst of 9 at 4/"},
}

// taken are options at the edges of what New takes.
var taken = []tokenbucket.Options{
	{Limit: algo.Per(1, 1)},
	{Limit: algo.Per(1, 1<<62)},
	{Limit: algo.Per(2, math.MaxInt64), Burst: 1},
	{Limit: algo.Per(1<<62, 1)},
	{Limit: algo.Per(1<<62, 1<<62), Burst: 1 << 62},
	{Limit: algo.Per(1, 1), Burst: 1 << 62},
	{Limit: algo.Per(1, 1<<31), Burst: 1 << 31},
	{Limit: algo.Per(4, 1<<61), Burst: 8},
	{Limit: algo.Per(1, 1), Burst: 1 << 62, Refill: tokenbucket.Interval},
	{Limit: algo.Per(4, 1<<61), Burst: 8, Refill: tokenbucket.Interval},
	{Limit: algo.Per(1<<62, 1<<62), Burst: 1, Refill: tokenbucket.Interval},
	{Limit: algo.Per(1, 1), Cost: math.MaxInt64},
}

func TestWhatIsWrongWithOptionsIsSaid(t *testing.T) {
	for _, c := range refused {
		_, err := tokenbucket.New(c.o)
		require.ErrorContains(t, err, "tokenbucket: ")
		require.ErrorContains(t, err, c.want)
		require.Equal(t, err, c.o.Validate())
		require.Zero(t, tokenbucket.Bound(c.o, time.Hour), "%+v", c.o)
	}
	_, err := tokenbucket.New(tokenbucket.Options{Limit: algo.Per(1, time.Second), Cost: -1})
	require.ErrorIs(t, err, algo.ErrCost)
	for _, o := range taken {
		_, err := tokenbucket.New(o)
		require.NoError(t, err, "%+v", o)
	}
}

// Options that are not valid deny, whatever is asked of them.
func TestRefusedOptionsDenyForEver(t *testing.T) {
	used := tokenbucket.State{Used: 1, At: 5}
	for _, c := range refused {
		want := algo.Result{Cost: max(c.o.Cost, 1), RetryAfter: algo.Never}
		if c.o.Cost < 0 {
			want.Cost = c.o.Cost
		}
		for _, s := range []tokenbucket.State{{}, used} {
			for v := step; v <= charge; v++ {
				next, r := call(s, v, 10, c.o, c.o.Cost)
				require.Equal(t, want, r, "%+v", c.o)
				require.Equal(t, s, next)
			}
		}
	}
	_, r, err := tokenbucket.Policy{}.Step(nil, nil, time.Now(), 1)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, algo.Never, r.RetryAfter)
}

func TestBound(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(10, time.Second), Burst: 3}
	at := o
	at.Refill = tokenbucket.Interval
	big := tokenbucket.Options{Limit: algo.Per(1<<62, 1)}
	for _, c := range []struct {
		o        tokenbucket.Options
		interval time.Duration
		want     int64
	}{
		{o, math.MinInt64, 0},
		{o, 0, 0},
		{o, 1, 3},
		{o, 100 * time.Millisecond, 3},
		{o, 100*time.Millisecond + 1, 4},
		{o, time.Second, 12},
		{o, time.Minute + 1, 603},
		{at, 1, 3},
		{at, 2, 6}, // no refill gives back more than the burst
		{at, time.Second + 1, 6},
		{at, time.Second + 2, 9},
		{big, 1, 1 << 62},
		{big, 2, math.MaxInt64},
		{big, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.want, tokenbucket.Bound(c.o, c.interval), "%+v over %d", c.o, c.interval)
	}
}

func TestSpecs(t *testing.T) {
	for want, o := range map[string]tokenbucket.Options{
		"tokenbucket 10/s": {Limit: algo.Per(10, time.Second)},
		"tokenbucket 10/m": {Limit: algo.Per(10, time.Minute), Burst: 10, Cost: 1},
		"tokenbucket 10/s burst=50 refill=interval cost=2":   {Limit: algo.Per(10, time.Second), Burst: 50, Refill: tokenbucket.Interval, Cost: 2},
		"tokenbucket 3/50ms burst=5":                         {Limit: algo.Per(3, 50*time.Millisecond), Burst: 5},
		"tokenbucket 4611686018427387904/ns refill=interval": {Limit: algo.Per(1<<62, 1), Refill: tokenbucket.Interval},
	} {
		p, err := tokenbucket.New(o)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		require.Equal(t, o, p.Options())
		require.Equal(t, o.Limit, p.Limit())
		require.Equal(t, tokenbucket.Bound(o, time.Hour), p.Bound(time.Hour))
	}
	require.Equal(t, "Refill(7)", tokenbucket.Refill(7).String())
}
