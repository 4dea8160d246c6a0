package gcra_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
)

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	minute := algo.Per(100, time.Minute)
	kit.InvalidOptions(t, gcra.State{At: 5, Used: 1, Period: 1}, map[string]gcra.Options{
		"gcra: algo: Limit.Count must be at least 1, got 0":                                                                                {},
		"gcra: algo: Limit.Count must be at most 2^62, got 4611686018427387905":                                                            {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"gcra: algo: Limit.Period must be at least 1ns, got -1s":                                                                           {Limit: algo.Per(1, -time.Second)},
		"gcra: Burst must be at least 1, or 0 for the limit's count, got -1":                                                               {Limit: minute, Burst: -1},
		"gcra: Burst must be at most 2^62, got 4611686018427387905":                                                                        {Limit: minute, Burst: algo.MaxCount + 1},
		"gcra: a burst of 76861433640456466 at 1/m takes longer than 2^62 ns (146 years) to refill; use a smaller burst or a faster limit": {Limit: algo.Per(1, time.Minute), Burst: 76861433640456466},
		"gcra: Cost is -1: algo: cost must not be negative":                                                                                {Limit: minute, Cost: -1},
	})
	algorithmtest.ZeroPolicyDenies(t, gcra.Policy{})
}

func TestLongestValidBursts(t *testing.T) {
	for _, o := range []gcra.Options{
		{Limit: algo.Per(1, 1), Burst: algo.MaxCount},
		{Limit: algo.Per(1, algo.MaxCount)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxCount)},
		{Limit: algo.Per(2, math.MaxInt64), Burst: 1},
	} {
		require.NoError(t, o.Validate())
		o.Cost = gcra.Peek(gcra.State{}, start, o).Limit
		s, r := gcra.Step(gcra.State{}, start, o)
		require.True(t, r.Allowed)
		require.LessOrEqual(t, r.ResetAfter, time.Duration(algo.MaxCount))
		require.False(t, gcra.Peek(s, start, o).Allowed)
	}
}

func TestSpecs(t *testing.T) {
	kit.Specs(t, func(o gcra.Options) algo.Limit { return o.Limit }, map[string]gcra.Options{
		"gcra 100/m":                 {Limit: algo.Per(100, time.Minute)},
		"gcra 100/m burst=20":        {Limit: algo.Per(100, time.Minute), Burst: 20},
		"gcra 5/250ms cost=2":        {Limit: algo.Per(5, 250*time.Millisecond), Burst: 5, Cost: 2},
		"gcra 1/36h burst=3 cost=10": {Limit: algo.Per(1, 36*time.Hour), Burst: 3, Cost: 10},
	})
}

func TestBoundIsTheDocumentedFormula(t *testing.T) {
	random := sample.New(9, 10)
	for range algorithmtest.Rounds(20000) {
		o, x := anyOptions(random), random.UpTo(algo.MaxInstant)
		burst := o.Burst
		if burst == 0 {
			burst = o.Limit.Count
		}
		want := floor(times(whole(o.Limit.Count), big.NewRat(x-1, int64(o.Limit.Period))))
		if want.Add(want, big.NewInt(burst)); want.IsInt64() {
			require.Equal(t, want.Int64(), kit.Bound(o, time.Duration(x)), "%+v", o)
		} else {
			require.Equal(t, int64(math.MaxInt64), kit.Bound(o, time.Duration(x)), "%+v", o)
		}
		require.Equal(t, int64(0), kit.Bound(o, time.Duration(1-x)))
	}
}
