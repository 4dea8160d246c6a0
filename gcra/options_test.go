package gcra_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

func TestNewRefusesACost(t *testing.T) {
	kit.NewRefusesCosts(t, gcra.Options{Limit: algo.Per(100, time.Minute)})
}

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	minute := algo.Per(100, time.Minute)
	kit.InvalidOptions(t, gcra.State{At: 5, Level: 1, Unit: 1}, map[string]gcra.Options{
		"gcra: algo: Limit.Count must be at least 1, got 0":                                                                                                                                {},
		"gcra: algo: Limit.Count must be at most 2^40 (1099511627776), got 1099511627777":                                                                                                  {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"gcra: algo: Limit.Period must be at least 1us, got -1s":                                                                                                                           {Limit: algo.Per(1, -time.Second)},
		"gcra: algo: Limit.Period must be a whole number of microseconds, got 1.5µs; the nearest is 2µs":                                                                                   {Limit: algo.Per(1, 1500)},
		"gcra: algo: Limit.Period must be at most 26062d, which is 71 years, got 876000h":                                                                                                  {Limit: algo.Per(1, 876000*time.Hour)},
		"gcra: Burst must be at least 1, or 0 for the limit's count, got -1":                                                                                                               {Limit: minute, Burst: -1},
		"gcra: Burst must be at most 2^40 (1099511627776), got 1099511627777":                                                                                                              {Limit: minute, Burst: algo.MaxCount + 1},
		"gcra: a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of at most 37529996, or a faster limit":                                                          {Limit: algo.Per(1, time.Minute), Burst: 37529997},
		"gcra: 639/24.923ms with a burst of 790248259182 needs numbers above 2^51; use a burst of at most 403693046555, or with this burst the limit 73/2.848ms, which is slightly slower": {Limit: algo.Per(639, 24923*time.Microsecond), Burst: 790248259182},
		"gcra: Cost is -1: algo: cost must be at least 1":                                                                                                                                  {Limit: minute, Cost: -1},
	})
	policytest.ZeroPolicyDenies(t, gcra.Policy{})
}

// The error for a limit names one that New accepts.
func TestNearestValidOptionsAreValid(t *testing.T) {
	for _, o := range []gcra.Options{
		{Limit: algo.Per(1, time.Minute), Burst: 37529996},
		{Limit: algo.Per(639, 24923*time.Microsecond), Burst: 403693046555},
		{Limit: algo.Per(73, 2848*time.Microsecond), Burst: 790248259182},
	} {
		require.NoError(t, o.Validate())
	}
}

func TestLongestValidBursts(t *testing.T) {
	for _, o := range []gcra.Options{
		{Limit: algo.Per(1, time.Microsecond), Burst: algo.MaxCount},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, 1<<50*time.Microsecond)},
		{Limit: algo.Per(2, algo.MaxPeriod), Burst: 1},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
	} {
		require.NoError(t, o.Validate())
		o.Cost = gcra.Peek(gcra.State{}, start, o).Limit
		s, r := gcra.Step(gcra.State{}, start, o)
		require.True(t, r.Allowed)
		require.LessOrEqual(t, r.ResetAfter, algo.MaxPeriod)
		require.False(t, gcra.Peek(s, start, o).Allowed)
	}
}

func TestSpecs(t *testing.T) {
	kit.Specs(t, func(o gcra.Options) algo.Limit { return o.Limit }, map[string]gcra.Options{
		"gcra 100/m":          {Limit: algo.Per(100, time.Minute)},
		"gcra 100/m burst=20": {Limit: algo.Per(100, time.Minute), Burst: 20},
		"gcra 5/250ms":        {Limit: algo.Per(5, 250*time.Millisecond), Burst: 5},
		"gcra 1/36h burst=3":  {Limit: algo.Per(1, 36*time.Hour), Burst: 3},
	})
}

func TestBoundIsTheDocumentedFormula(t *testing.T) {
	random := sample.New(9, 10)
	for range policytest.Rounds(20000) {
		o, x := anyOptions(random), random.UpTo(math.MaxInt64)
		burst := o.Burst
		if burst == 0 {
			burst = o.Limit.Count
		}
		rate, err := o.Limit.Rate(burst)
		require.NoError(t, err)
		want := floor(times(whole((x-1)/1000+min(1, (x-1)%1000)), big.NewRat(rate.Drain, rate.Unit)))
		if want.Add(want, big.NewInt(burst)); want.IsInt64() {
			require.Equal(t, want.Int64(), kit.Bound(o, time.Duration(x)), "%+v", o)
		} else {
			require.Equal(t, int64(math.MaxInt64), kit.Bound(o, time.Duration(x)), "%+v", o)
		}
		require.Equal(t, int64(0), kit.Bound(o, time.Duration(1-x)))
	}
}
