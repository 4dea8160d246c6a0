package fixedwindow_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

// refused are options that New does not take, and what it says.
var refused = []struct {
	o    fixedwindow.Options
	want string
}{
	{fixedwindow.Options{}, "Limit.Count must be at least 1, got 0"},
	{fixedwindow.Options{Limit: algo.Per(-1, time.Second)}, "Limit.Count must be at least 1, got -1"},
	{fixedwindow.Options{Limit: algo.Per(math.MaxInt64, time.Second)}, "Limit.Count must be at most 2^62, got 9223372036854775807"},
	{fixedwindow.Options{Limit: algo.Per(1, 0)}, "Limit.Period must be at least 1ns, got 0s"},
	{fixedwindow.Options{Limit: algo.Per(1, -1)}, "Limit.Period must be at least 1ns, got -1ns"},
	{fixedwindow.Options{Limit: algo.Per(1, time.Second), Align: 2}, "Align must be AlignFirst or AlignClock, got 2"},
	{fixedwindow.Options{Limit: algo.Per(1, time.Second), Align: -1}, "Align must be AlignFirst or AlignClock, got -1"},
	{fixedwindow.Options{Limit: algo.Per(1, time.Second), Offset: time.Minute}, "Offset is for AlignClock; with AlignFirst it must be 0, got 1m"},
	{fixedwindow.Options{Limit: algo.Per(1, time.Second), Cost: -1}, "Cost is -1"},
}

// taken are options at the edges of what New takes.
var taken = []fixedwindow.Options{
	{Limit: algo.Per(1, 1)},
	{Limit: algo.Per(1, math.MaxInt64)},
	{Limit: algo.Per(1<<62, 1)},
	{Limit: algo.Per(1<<62, math.MaxInt64), Align: fixedwindow.AlignClock, Offset: math.MinInt64},
	{Limit: algo.Per(1, 1), Align: fixedwindow.AlignClock, Offset: math.MaxInt64},
	{Limit: algo.Per(1, 1), Cost: math.MaxInt64},
}

func TestWhatIsWrongWithOptionsIsSaid(t *testing.T) {
	for _, c := range refused {
		_, err := fixedwindow.New(c.o)
		require.ErrorContains(t, err, "fixedwindow: ")
		require.ErrorContains(t, err, c.want)
		require.Equal(t, err, c.o.Validate())
		require.Zero(t, fixedwindow.Bound(c.o, time.Hour), "%+v", c.o)
	}
	_, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(1, time.Second), Cost: -1})
	require.ErrorIs(t, err, algo.ErrCost)
	for _, o := range taken {
		_, err := fixedwindow.New(o)
		require.NoError(t, err, "%+v", o)
	}
}

// Options that are not valid deny, whatever is asked of them.
func TestRefusedOptionsDenyForEver(t *testing.T) {
	used := fixedwindow.State{Start: 5, Used: 1}
	for _, c := range refused {
		want := algo.Result{Cost: max(c.o.Cost, 1), RetryAfter: algo.Never}
		if c.o.Cost < 0 {
			want.Cost = c.o.Cost
		}
		for _, s := range []fixedwindow.State{{}, used} {
			for v := step; v <= charge; v++ {
				next, r := call(s, v, 10, c.o, c.o.Cost)
				require.Equal(t, want, r, "%+v", c.o)
				require.Equal(t, s, next)
			}
		}
	}
	_, r, err := fixedwindow.Policy{}.Step(nil, nil, time.Now(), 1)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, algo.Never, r.RetryAfter)
}

func TestBound(t *testing.T) {
	o := fixedwindow.Options{Limit: algo.Per(10, time.Second)}
	clock := fixedwindow.Options{Limit: algo.Per(10, time.Second), Align: fixedwindow.AlignClock}
	for _, c := range []struct {
		o        fixedwindow.Options
		interval time.Duration
		want     int64
	}{
		{o, math.MinInt64, 0},
		{o, 0, 0},
		{o, 1, 10},
		{o, 2, 20},
		{clock, 2, 20},
		{o, time.Second + 1, 20},
		{o, time.Second + 2, 30},
		{o, time.Minute, 610},
		{fixedwindow.Options{Limit: algo.Per(1<<61, 1)}, 2, 1 << 62},
		{fixedwindow.Options{Limit: algo.Per(1<<62, 1)}, 2, math.MaxInt64},
		{fixedwindow.Options{Limit: algo.Per(1<<62, 1)}, math.MaxInt64, math.MaxInt64},
		{fixedwindow.Options{Limit: algo.Per(1, 1)}, math.MaxInt64, math.MaxInt64},
		{fixedwindow.Options{Limit: algo.Per(3, math.MaxInt64)}, math.MaxInt64, 6},
	} {
		require.Equal(t, c.want, fixedwindow.Bound(c.o, c.interval), "%+v over %d", c.o, c.interval)
	}
}

// Every way to spend under 2 in 3ns, over three windows: the most that any stretch
// sees is the bound, but for windows that a first request opened, which see one unit
// less than that in stretches of up to a period.
func TestTheWorstCaseOfTheDoc(t *testing.T) {
	const count, period, instants = 2, 3, 9
	o := fixedwindow.Options{Limit: algo.Per(count, period)}
	clock := o
	clock.Align = fixedwindow.AlignClock
	for x := 2; x <= period+1; x++ {
		bound := fixedwindow.Bound(o, time.Duration(x))
		require.EqualValues(t, 2*count, bound)
		require.Equal(t, bound, worst(clock, fixedwindow.State{}, 0, instants, x))
		if x <= period {
			bound--
		}
		require.Equal(t, bound, worst(o, fixedwindow.State{}, 0, instants, x))
	}
}

// worst is the most that is admitted in the x instants before some instant up to end.
func worst(o fixedwindow.Options, s fixedwindow.State, now, end, x int, spent ...int64) int64 {
	var most int64
	for _, units := range spent[max(0, len(spent)-x):] {
		most += units
	}
	if now == end {
		return most
	}
	for o.Cost = 1; o.Cost <= o.Limit.Count; o.Cost++ {
		if next, r := fixedwindow.Step(s, time.Unix(0, int64(now)), o); r.Allowed {
			most = max(most, worst(o, next, now+1, end, x, append(spent[:now:now], o.Cost)...))
		}
	}
	return max(most, worst(o, s, now+1, end, x, append(spent[:now:now], 0)...))
}

// The time-lines of the package comment.
func TestTheTimeLinesOfTheDoc(t *testing.T) {
	for _, c := range []struct {
		align      fixedwindow.Align
		retryAfter time.Duration
		again      time.Duration
	}{{fixedwindow.AlignFirst, 30 * time.Second, 80 * time.Second}, {fixedwindow.AlignClock, 10 * time.Second, 60 * time.Second}} {
		var s fixedwindow.State
		at := func(at time.Duration, cost int64) (r algo.Result) {
			o := fixedwindow.Options{Limit: algo.Per(3, time.Minute), Align: c.align, Cost: cost}
			s, r = fixedwindow.Step(s, y2k.Add(at), o)
			return r
		}
		require.True(t, at(20*time.Second, 1).Allowed)
		require.True(t, at(40*time.Second, 2).Allowed)
		require.Equal(t, c.retryAfter, at(50*time.Second, 1).RetryAfter)
		r := at(c.again, 3)
		require.True(t, r.Allowed && r.Fresh)
		require.Equal(t, time.Minute, r.ResetAfter)
	}
}

func TestSpecs(t *testing.T) {
	clock := fixedwindow.AlignClock
	for want, o := range map[string]fixedwindow.Options{
		"fixedwindow 10/s":                               {Limit: algo.Per(10, time.Second)},
		"fixedwindow 10/s cost=2":                        {Limit: algo.Per(10, time.Second), Cost: 2},
		"fixedwindow 5/h align=clock offset=15m":         {Limit: algo.Per(5, time.Hour), Align: clock, Offset: 15 * time.Minute},
		"fixedwindow 5/d align=clock offset=-2h":         {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: -2 * time.Hour},
		"fixedwindow 5/d align=clock offset=1h30m":       {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 90 * time.Minute},
		"fixedwindow 5/d align=clock offset=1m0.5s":      {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 60500 * time.Millisecond},
		"fixedwindow 5/d align=clock offset=10s cost=10": {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 10 * time.Second, Cost: 10},
	} {
		p, err := fixedwindow.New(o)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		require.Equal(t, o, p.Options())
		require.Equal(t, o.Limit, p.Limit())
		require.Equal(t, fixedwindow.Bound(o, time.Hour), p.Bound(time.Hour))
	}
	require.Equal(t, "Align(7)", fixedwindow.Align(7).String())
}
