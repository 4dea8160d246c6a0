package fixedwindow_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/testing/policytest"
)

func TestNewRefusesACost(t *testing.T) {
	kit.NewRefusesCosts(t, fixedwindow.Options{Limit: algo.Per(100, time.Minute)})
}

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	second := algo.Per(1, time.Second)
	kit.InvalidOptions(t, fixedwindow.State{Start: 5, Used: 1}, map[string]fixedwindow.Options{
		"fixedwindow: algo: Limit.Count must be at least 1, got 0":                                  {},
		"fixedwindow: algo: Limit.Count must be at most 2^40 (1099511627776), got 1099511627777":    {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"fixedwindow: algo: Limit.Period must be at least 1us, got 0s":                              {Limit: algo.Per(1, 0)},
		"fixedwindow: algo: Limit.Period must be a whole number of microseconds, got 1.5µs":         {Limit: algo.Per(1, 1500)},
		"fixedwindow: algo: Limit.Period must be at most 26062d, which is 71 years":                 {Limit: algo.Per(1, algo.MaxPeriod+time.Microsecond)},
		"fixedwindow: Align must be AlignFirst or AlignClock, got 2":                                {Limit: second, Align: 2},
		"fixedwindow: Align must be AlignFirst or AlignClock, got -1":                               {Limit: second, Align: -1},
		"fixedwindow: Offset is for AlignClock; with AlignFirst it must be 0, got 1m":               {Limit: second, Offset: time.Minute},
		"fixedwindow: Offset must be a whole number of microseconds, got 1.5µs; the nearest is 2µs": {Limit: second, Align: fixedwindow.AlignClock, Offset: 1500},
		"fixedwindow: Cost is -1": {Limit: second, Cost: -1},
	})
	policytest.ZeroPolicyDenies(t, fixedwindow.Policy{})
}

func TestExtremeOptionsAreValid(t *testing.T) {
	const most = math.MaxInt64 / time.Microsecond * time.Microsecond
	for _, o := range []fixedwindow.Options{
		{Limit: algo.Per(1, time.Microsecond)},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod), Align: fixedwindow.AlignClock, Offset: -most},
		{Limit: algo.Per(1, time.Microsecond), Align: fixedwindow.AlignClock, Offset: most},
		{Limit: algo.Per(1, time.Microsecond), Cost: math.MaxInt64},
	} {
		require.NoError(t, o.Validate(), "%+v", o)
	}
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
		{o, 2, 19},
		{o, time.Second - 999, 19},
		{o, time.Second - 998, 20},
		{o, time.Second + 1, 20},
		{o, time.Second + 2, 29},
		{o, time.Minute, 610},
		{clock, 1, 10},
		{clock, 2, 20},
		{clock, time.Second + 1, 20},
		{clock, time.Second + 2, 30},
		{clock, time.Minute, 610},
		{fixedwindow.Options{Limit: algo.Per(algo.MaxCount, time.Microsecond)}, 2, 2 * algo.MaxCount},
		{fixedwindow.Options{Limit: algo.Per(algo.MaxCount, time.Microsecond)}, math.MaxInt64, math.MaxInt64},
		{fixedwindow.Options{Limit: algo.Per(3, algo.MaxPeriod)}, math.MaxInt64, 17},
	} {
		require.Equal(t, c.want, kit.Bound(c.o, c.interval), "%+v over %d", c.o, c.interval)
	}
}

// The test tries every way to spend the units of a small limit in three windows. The most units that are admitted between two
// instants, both included, must equal the bound of the shortest interval that can have both.
func TestBoundIsReached(t *testing.T) {
	for _, limit := range []algo.Limit{algo.Per(1, 2), algo.Per(1, 3), algo.Per(2, 3), algo.Per(3, 2), algo.Per(2, 1)} {
		for _, align := range []fixedwindow.Align{fixedwindow.AlignFirst, fixedwindow.AlignClock} {
			period := int(limit.Period)
			o := fixedwindow.Options{Limit: algo.Per(limit.Count, limit.Period*time.Microsecond), Align: align}
			for span := range 2*period + 1 {
				most := worst(o, fixedwindow.State{}, 0, 3*period, span)
				require.Equal(t, kit.Bound(o, max(1, time.Duration(span-1)*time.Microsecond+2)), most, "%v align=%v in %dus", o.Limit, align, span)
			}
		}
	}
}

// worst returns the most units that are admitted at instants from now to end, of which the last is at most span after the first.
func worst(o fixedwindow.Options, s fixedwindow.State, now, end, span int, spent ...int64) int64 {
	var most int64
	for _, units := range spent[max(0, len(spent)-span-1):] {
		most += units
	}
	if now == end {
		return most
	}
	for o.Cost = 1; o.Cost <= o.Limit.Count; o.Cost++ {
		if next, r := fixedwindow.Step(s, time.UnixMicro(int64(now)), o); r.Allowed {
			most = max(most, worst(o, next, now+1, end, span, append(spent[:now:now], o.Cost)...))
		}
	}
	return max(most, worst(o, s, now+1, end, span, append(spent[:now:now], 0)...))
}

func TestDocumentedTimelines(t *testing.T) {
	for _, c := range []struct {
		align      fixedwindow.Align
		retryAfter time.Duration
		again      time.Duration
	}{{fixedwindow.AlignFirst, 30 * time.Second, 80 * time.Second}, {fixedwindow.AlignClock, 10 * time.Second, 60 * time.Second}} {
		var s fixedwindow.State
		at := func(at time.Duration, cost int64) (r algo.Result) {
			o := fixedwindow.Options{Limit: algo.Per(3, time.Minute), Align: c.align, Cost: cost}
			s, r = fixedwindow.Step(s, start.Add(at), o)
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
	kit.Specs(t, func(o fixedwindow.Options) algo.Limit { return o.Limit }, map[string]fixedwindow.Options{
		"fixedwindow 10/s":                          {Limit: algo.Per(10, time.Second)},
		"fixedwindow 5/h align=clock offset=15m":    {Limit: algo.Per(5, time.Hour), Align: clock, Offset: 15 * time.Minute},
		"fixedwindow 5/d align=clock offset=-2h":    {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: -2 * time.Hour},
		"fixedwindow 5/d align=clock offset=1h30m":  {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 90 * time.Minute},
		"fixedwindow 5/d align=clock offset=1m0.5s": {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 60500 * time.Millisecond},
		"fixedwindow 5/d align=clock offset=10s":    {Limit: algo.Per(5, 24*time.Hour), Align: clock, Offset: 10 * time.Second},
	})
	require.Equal(t, "Align(7)", fixedwindow.Align(7).String())
}
