package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	kit.InvalidOptions(t, tokenbucket.State{Used: 1, At: 5}, map[string]tokenbucket.Options{
		"tokenbucket: algo: Limit.Count must be at least 1, got 0":                     {},
		"tokenbucket: algo: Limit.Count must be at least 1, got -1":                    {Limit: algo.Per(-1, time.Second)},
		"tokenbucket: algo: Limit.Count must be at most 2^62, got 9223372036854775807": {Limit: algo.Per(math.MaxInt64, time.Second)},
		"tokenbucket: algo: Limit.Period must be at least 1ns, got 0s":                 {Limit: algo.Per(1, 0)},
		"tokenbucket: algo: Limit.Period must be at least 1ns, got -1ns":               {Limit: algo.Per(1, -1)},
		"tokenbucket: Burst must be at least 1, or 0 for the limit's count, got -3":    {Limit: algo.Per(1, time.Second), Burst: -3},
		"tokenbucket: Burst must be at most 2^62, got 4611686018427387905":             {Limit: algo.Per(1, time.Second), Burst: 1<<62 + 1},
		"tokenbucket: Refill must be Continuous or Interval, got 2":                    {Limit: algo.Per(1, time.Second), Refill: 2},
		"tokenbucket: Refill must be Continuous or Interval, got -1":                   {Limit: algo.Per(1, time.Second), Refill: -1},
		"tokenbucket: Cost is -1":         {Limit: algo.Per(1, time.Second), Cost: -1},
		"tokenbucket: a burst of 1 at 1/": {Limit: algo.Per(1, 1<<62+1)},
		"tokenbucket: a burst of 2147483649 at 1/2.147483648s takes longer than 2^62 ns (146 years) to refill": {Limit: algo.Per(1, 1<<31), Burst: 1<<31 + 1},
		"tokenbucket: a burst of 9 at 4/": {Limit: algo.Per(4, 1<<61), Burst: 9},
		"a burst of 9 at 4/":              {Limit: algo.Per(4, 1<<61), Burst: 9, Refill: tokenbucket.Interval},
	})
	algorithmtest.ZeroPolicyDenies(t, tokenbucket.Policy{})
}

func TestExtremeOptionsAreValid(t *testing.T) {
	for _, o := range []tokenbucket.Options{
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
	} {
		require.NoError(t, o.Validate(), "%+v", o)
	}
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
		{at, 2, 5}, // no refill gives back more than the burst
		{at, time.Second, 5},
		{at, time.Second + 1, 6},
		{at, time.Second + 2, 8},
		{tokenbucket.Options{Limit: algo.Per(1, time.Second), Refill: tokenbucket.Interval}, time.Second, 1},
		{tokenbucket.Options{Limit: algo.Per(1<<62, 2), Refill: tokenbucket.Interval}, 2, math.MaxInt64},
		{big, 1, 1 << 62},
		{big, 2, math.MaxInt64},
		{big, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.want, kit.Bound(c.o, c.interval), "%+v over %d", c.o, c.interval)
	}
}

func TestSpecs(t *testing.T) {
	kit.Specs(t, func(o tokenbucket.Options) algo.Limit { return o.Limit }, map[string]tokenbucket.Options{
		"tokenbucket 10/s": {Limit: algo.Per(10, time.Second)},
		"tokenbucket 10/m": {Limit: algo.Per(10, time.Minute), Burst: 10, Cost: 1},
		"tokenbucket 10/s burst=50 refill=interval cost=2":   {Limit: algo.Per(10, time.Second), Burst: 50, Refill: tokenbucket.Interval, Cost: 2},
		"tokenbucket 3/50ms burst=5":                         {Limit: algo.Per(3, 50*time.Millisecond), Burst: 5},
		"tokenbucket 4611686018427387904/ns refill=interval": {Limit: algo.Per(1<<62, 1), Refill: tokenbucket.Interval},
	})
	require.Equal(t, "Refill(7)", tokenbucket.Refill(7).String())
}
