// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that clocks which disagree never get more than Bound, nor turn a denial
// into an admission; and that encoded states stay readable.
package gcra_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

var (
	minute = algo.Per(100, time.Minute)
	// 639/24.923ms with a burst of 790248259182 needs numbers above 2^51. These two are the nearest that do not.
	nearest = []gcra.Options{
		{Limit: algo.Per(639, 24923*time.Microsecond), Burst: 403693046555},
		{Limit: algo.Per(73, 2848*time.Microsecond), Burst: 790248259182},
	}
)

var suite = policytest.Suite[gcra.State, gcra.Options, gcra.Policy]{
	Name: "gcra",
	Step: gcra.Step, Peek: gcra.Peek, Refund: gcra.Refund, Charge: gcra.Charge,
	New: gcra.New, AppendState: gcra.AppendState, ParseState: gcra.ParseState, Model: model,
	AnyOptions: anyOptions,
	Bound: func(o gcra.Options, m int64) *big.Int {
		burst := policy.Or(o.Burst, o.Limit.Count)
		rate, err := o.Limit.Rate(burst)
		if err != nil {
			panic(err)
		}
		return floor(plus(whole(burst), times(whole(m), big.NewRat(rate.Drain, rate.Unit))))
	},
	Invalid: map[string]gcra.Options{
		"gcra: Burst must be at least 1, or 0 for the limit's count, got -1":                                                                                                       {Limit: minute, Burst: -1},
		"gcra: Burst must be at most 2^40 (1099511627776), got 1099511627777":                                                                                                      {Limit: minute, Burst: algo.MaxCount + 1},
		"gcra: a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of 37529996, or a faster limit":                                                          {Limit: algo.Per(1, time.Minute), Burst: 37529997},
		"gcra: 639/24.923ms with a burst of 790248259182 needs numbers above 2^51; use a burst of 403693046555, or with this burst the limit 73/2.848ms, which is slightly slower": {Limit: nearest[0].Limit, Burst: nearest[1].Burst},
	},
	Extreme: append([]gcra.Options{
		{Limit: algo.Per(1, time.Microsecond), Burst: algo.MaxCount},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(1, time.Minute), Burst: 37529996},
		{Limit: algo.Per(algo.MaxCount, 1<<50*time.Microsecond)},
		{Limit: algo.Per(2, algo.MaxPeriod), Burst: 1},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
	}, nearest...),
	Specs: map[string]gcra.Options{
		"gcra 100/m":          {Limit: minute},
		"gcra 100/m burst=20": {Limit: minute, Burst: 20},
		"gcra 5/250ms":        {Limit: algo.Per(5, 250*time.Millisecond), Burst: 5},
		"gcra 1/36h burst=3":  {Limit: algo.Per(1, 36*time.Hour), Burst: 3},
	},
	Costs: []int64{2, 1, 1, 2},
	Golden: []policytest.Golden[gcra.State, gcra.Options]{{
		Options: gcra.Options{Limit: algo.Per(3, time.Second)},
		Hex:     "67 01 035d013b4ab687 00000000002309eb 00000000000f4240",
		State:   gcra.State{At: 946684801234567, Level: 2296299, Unit: 1000000},
	}, {
		Options: gcra.Options{Limit: minute},
		Hex:     "67 01 035d013b4ab687 00000000002417f9 00000000000927c0",
		State:   gcra.State{At: 946684801234567, Level: 2365433, Unit: 600000},
	}, {
		Options: gcra.Options{Limit: algo.Per(1, 365*24*time.Hour), Burst: 60},
		Hex:     "67 01 035d013b4ab687 0000ac1748646979 00001cae8c13e000",
		State:   gcra.State{At: 946684801234567, Level: 6*31536000000000 - 1234567, Unit: 31536000000000},
	}},
	Decode: []gcra.Options{{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2}},
	At:     func(s gcra.State) int64 { return s.At },
	Nearest: [][2]gcra.State{
		{{At: 5, Unit: 7}, {}},
		{{At: 5, Level: -1, Unit: 7}, {}},
		{{Level: 3}, {Level: 3, Unit: 1}},
		{{At: -5, Level: 3, Unit: 2}, {Level: 3, Unit: 2}},
		{{At: 9, Level: 3, Unit: -2}, {At: 9, Level: 3, Unit: 1}},
		{{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {algo.MaxInstant, algo.MaxLevel, algo.MaxLevel}},
		{{At: 9, Level: 3, Unit: 2}, {At: 9, Level: 3, Unit: 2}},
	},
}

func TestPackage(t *testing.T) { suite.Run(t) }

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }

// Burst 0 is the limit's count, so the burst changes with the limit.
func TestLaws(t *testing.T) {
	for _, burst := range []int64{0, 1, 5, 1 << 20} {
		name := fmt.Sprintf("gcra burst=%d", burst)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			algotest.Run(t, algotest.Subject{
				Name:   name,
				New:    suite.NewWithLimit(gcra.Options{Burst: burst}),
				Oracle: func(l algo.Limit) algotest.Oracle { return algotest.Bucket(l, policy.Or(burst, l.Count)) },
				Recode: suite.Recode,
			})
		})
	}
}

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) gcra.Options {
	for {
		limit := random.Limit()
		burst := sample.OneOf(random, random.Int64N(9), random.UpTo(limit.Count), random.UpTo(algo.MaxCount))
		if o := (gcra.Options{Limit: limit, Burst: burst}); o.Validate() == nil {
			return o
		}
	}
}

// FuzzStep compares functions, methods and the model, for any state, time and options.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, burst, cost, at, level, unit, sec, nsec int64) {
		o := gcra.Options{Limit: algo.Per(count, time.Duration(period)*time.Microsecond), Burst: burst, Cost: cost}
		suite.EachOp(t, gcra.State{At: at, Level: level, Unit: unit}, time.Unix(sec, nsec), o)
	})
}

func FuzzDecode(f *testing.F) { suite.FuzzDecode(f) }
