package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestNewRefusesACost(t *testing.T) {
	kit.NewRefusesCosts(t, tokenbucket.Options{Limit: algo.Per(100, time.Minute)})
}

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	minute := algo.Per(1, time.Minute)
	kit.InvalidOptions(t, tokenbucket.State{At: 5, Level: 1, Unit: 1}, map[string]tokenbucket.Options{
		"tokenbucket: algo: Limit.Count must be at least 1, got 0":                               {},
		"tokenbucket: algo: Limit.Count must be at most 2^40 (1099511627776), got 1099511627777": {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"tokenbucket: algo: Limit.Period must be at least 1us, got 0s":                           {Limit: algo.Per(1, 0)},
		"tokenbucket: algo: Limit.Period must be a whole number of microseconds, got 1.5µs":      {Limit: algo.Per(1, 1500)},
		"tokenbucket: algo: Limit.Period must be at most 26062d, which is 71 years, got 876000h": {Limit: algo.Per(1, 876000*time.Hour)},
		"tokenbucket: Burst must be at least 1, or 0 for the limit's count, got -3":              {Limit: minute, Burst: -3},
		"tokenbucket: Burst must be at most 2^40 (1099511627776), got 1099511627777":             {Limit: minute, Burst: algo.MaxCount + 1},
		"tokenbucket: Refill must be Continuous or Interval, got 2":                              {Limit: minute, Refill: 2},
		"tokenbucket: Refill must be Continuous or Interval, got -1":                             {Limit: minute, Refill: -1},
		"tokenbucket: Cost is -1": {Limit: minute, Cost: -1},
		"tokenbucket: a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of at most 37529996, or a faster limit":                   {Limit: minute, Burst: 37529997},
		"a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of at most 37529996, or a faster limit":                                {Limit: minute, Burst: 37529997, Refill: tokenbucket.Interval},
		"a burst of 5 at 4/14600d takes 71 years or longer to refill; use a burst of at most 4":                                                            {Limit: algo.Per(4, 40*365*24*time.Hour), Burst: 5, Refill: tokenbucket.Interval},
		"639/24.923ms with a burst of 790248259182 needs numbers above 2^51; use a burst of at most 403693046555, or with this burst the limit 73/2.848ms": {Limit: algo.Per(639, 24923*time.Microsecond), Burst: 790248259182},
	})
	policytest.ZeroPolicyDenies(t, tokenbucket.Policy{})
}

func TestExtremeOptionsAreValid(t *testing.T) {
	for _, o := range []tokenbucket.Options{
		{Limit: algo.Per(1, time.Microsecond), Burst: algo.MaxCount},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(2, algo.MaxPeriod), Burst: 1},
		{Limit: algo.Per(1, time.Minute), Burst: 37529996},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(639, 24923*time.Microsecond), Burst: 403693046555},
	} {
		for _, o.Refill = range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
			require.NoError(t, o.Validate(), "%+v", o)
			o.Cost = tokenbucket.Peek(tokenbucket.State{}, start, o).Limit
			s, r := tokenbucket.Step(tokenbucket.State{}, start, o)
			require.True(t, r.Allowed)
			require.LessOrEqual(t, r.ResetAfter, algo.MaxPeriod)
			require.False(t, tokenbucket.Peek(s, start, o).Allowed)
		}
	}
	o := tokenbucket.Options{Limit: algo.Per(639, 24923*time.Microsecond), Burst: 790248259182, Refill: tokenbucket.Interval}
	require.NoError(t, o.Validate(), "interval refill needs no fractions")
}

func TestBound(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(10, time.Second), Burst: 3}
	at := o
	at.Refill = tokenbucket.Interval
	big := tokenbucket.Options{Limit: algo.Per(algo.MaxCount, time.Microsecond)}
	for _, c := range []struct {
		o        tokenbucket.Options
		interval time.Duration
		want     int64
	}{
		{o, math.MinInt64, 0},
		{o, 0, 0},
		{o, 1, 3},
		{o, 100*time.Millisecond - 999, 3},
		{o, 100*time.Millisecond - 998, 4},
		{o, time.Second, 13},
		{o, time.Minute + 2, 603},
		{at, 1, 3},
		{at, 2, 5}, // no refill gives back more than the burst
		{at, time.Second - 999, 5},
		{at, time.Second - 998, 6},
		{at, time.Second + 1, 6},
		{at, time.Second + 2, 8},
		{tokenbucket.Options{Limit: algo.Per(1, time.Second), Refill: tokenbucket.Interval}, time.Second - 999, 1},
		{big, 1, algo.MaxCount},
		{big, 2, 2 * algo.MaxCount},
		{big, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.want, kit.Bound(c.o, c.interval), "%+v over %d", c.o, c.interval)
	}
}

// The test tries every way to spend the tokens of a small limit. The most tokens that are admitted between two
// instants, both included, must equal the bound of the shortest interval that can have both. With continuous refill it can be
// less, because tokens come back between two instants.
func TestBoundIsReached(t *testing.T) {
	reached := 0
	for _, limit := range []algo.Limit{algo.Per(1, 2*time.Microsecond), algo.Per(2, 3*time.Microsecond), algo.Per(3, 2*time.Microsecond), algo.Per(2, time.Microsecond)} {
		for i := range int64(6) {
			o := tokenbucket.Options{Limit: limit, Burst: i/2 + 1, Refill: tokenbucket.Refill(i % 2)}
			for span := range 5 {
				most := worst(o, tokenbucket.State{}, 0, 8, span)
				bound := kit.Bound(o, max(1, time.Duration(span-1)*time.Microsecond+2))
				require.LessOrEqual(t, most, bound, "%+v in %dus", o, span)
				if most == bound {
					reached++
				} else {
					require.Equal(t, tokenbucket.Continuous, o.Refill, "%+v in %dus", o, span)
				}
			}
		}
	}
	require.Greater(t, reached, 100)
}

// worst returns the most tokens that are admitted at instants from now to end, of which the last is at most span after the first.
func worst(o tokenbucket.Options, s tokenbucket.State, now, end, span int, spent ...int64) int64 {
	var most int64
	for _, tokens := range spent[max(0, len(spent)-span-1):] {
		most += tokens
	}
	if now == end {
		return most
	}
	for o.Cost = 1; o.Cost <= o.Burst; o.Cost++ {
		if next, r := tokenbucket.Step(s, time.UnixMicro(int64(now)), o); r.Allowed {
			most = max(most, worst(o, next, now+1, end, span, append(spent[:now:now], o.Cost)...))
		}
	}
	return max(most, worst(o, s, now+1, end, span, append(spent[:now:now], 0)...))
}

func TestSpecs(t *testing.T) {
	kit.Specs(t, func(o tokenbucket.Options) algo.Limit { return o.Limit }, map[string]tokenbucket.Options{
		"tokenbucket 10/s":                             {Limit: algo.Per(10, time.Second)},
		"tokenbucket 10/m":                             {Limit: algo.Per(10, time.Minute), Burst: 10, Cost: 1},
		"tokenbucket 10/s burst=50 refill=interval":    {Limit: algo.Per(10, time.Second), Burst: 50, Refill: tokenbucket.Interval},
		"tokenbucket 3/50ms burst=5":                   {Limit: algo.Per(3, 50*time.Millisecond), Burst: 5},
		"tokenbucket 1099511627776/us refill=interval": {Limit: algo.Per(algo.MaxCount, time.Microsecond), Refill: tokenbucket.Interval},
	})
	require.Equal(t, "Refill(7)", tokenbucket.Refill(7).String())
}
