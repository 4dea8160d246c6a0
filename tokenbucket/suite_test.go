// The tests promise that the package decides exactly as the model in model_test.go; that a changed limit keeps the tokens used and
// the time that has accrued; and that encoded states stay readable.
package tokenbucket_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/tokenbucket"
)

const interval = tokenbucket.Interval

var (
	minute = algo.Per(1, time.Minute)
	uneven = algo.Per(639, 24923*time.Microsecond)
)

var suite = policytest.Suite[tokenbucket.State, tokenbucket.Options, tokenbucket.Policy]{
	Name: "tokenbucket",
	Step: tokenbucket.Step, Peek: tokenbucket.Peek, Refund: tokenbucket.Refund, Charge: tokenbucket.Charge,
	New: tokenbucket.New, AppendState: tokenbucket.AppendState, ParseState: tokenbucket.ParseState, Model: model,
	AnyOptions: anyOptions,
	Bound: func(o tokenbucket.Options, m int64) *big.Int {
		burst, period := policy.Or(o.Burst, o.Limit.Count), o.Limit.Period.Microseconds()
		if o.Refill == tokenbucket.Continuous {
			return floor(plus(whole(burst), times(whole(m), refillOf(o, burst).tokens))).Num()
		}
		bound := plus(whole(burst), times(whole(min(o.Limit.Count, burst)), whole((m+period-1)/period)))
		if m%period > 0 {
			bound = minus(bound, whole(1))
		}
		return bound.Num()
	},
	Invalid: map[string]tokenbucket.Options{
		"tokenbucket: Burst must be at least 1, or 0 for the limit's count, got -3":                                              {Limit: minute, Burst: -3},
		"tokenbucket: Burst must be at most 2^40 (1099511627776), got 1099511627777":                                             {Limit: minute, Burst: algo.MaxCount + 1},
		"tokenbucket: Refill must be Continuous or Interval, got 2":                                                              {Limit: minute, Refill: 2},
		"tokenbucket: Refill must be Continuous or Interval, got -1":                                                             {Limit: minute, Refill: -1},
		"tokenbucket: a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of 37529996, or a faster limit": {Limit: minute, Burst: 37529997},
		"a burst of 37529997 at 1/m takes 71 years or longer to refill; use a burst of 37529996, or a faster limit":              {Limit: minute, Burst: 37529997, Refill: interval},
		"a burst of 5 at 4/14600d takes 71 years or longer to refill; use a burst of 4":                                          {Limit: algo.Per(4, 40*365*24*time.Hour), Burst: 5, Refill: interval},
		"639/24.923ms with a burst of 790248259182 needs numbers above 2^51; use a burst of 403693046555, or with this burst":    {Limit: uneven, Burst: 790248259182},
	},
	Extreme: []tokenbucket.Options{
		{Limit: algo.Per(1, time.Microsecond), Burst: algo.MaxCount},
		{Limit: algo.Per(1, time.Microsecond), Burst: algo.MaxCount, Refill: interval},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(1, algo.MaxPeriod), Refill: interval},
		{Limit: algo.Per(2, algo.MaxPeriod), Burst: 1},
		{Limit: minute, Burst: 37529996},
		{Limit: minute, Burst: 37529996, Refill: interval},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond), Refill: interval},
		{Limit: uneven, Burst: 403693046555},
		{Limit: uneven, Burst: 790248259182, Refill: interval}, // which needs no fractions
	},
	Specs: map[string]tokenbucket.Options{
		"tokenbucket 10/s":                             {Limit: algo.Per(10, time.Second)},
		"tokenbucket 10/m":                             {Limit: algo.Per(10, time.Minute), Burst: 10, Cost: 1},
		"tokenbucket 10/s burst=50 refill=interval":    {Limit: algo.Per(10, time.Second), Burst: 50, Refill: interval},
		"tokenbucket 1099511627776/us refill=interval": {Limit: algo.Per(algo.MaxCount, time.Microsecond), Refill: interval},
	},
	Costs: []int64{2, 1, 1, 2},
	Golden: []policytest.Golden[tokenbucket.State, tokenbucket.Options]{{
		Options: tokenbucket.Options{Limit: algo.Per(3, time.Second)},
		Hex:     "74 01 035d013b4ab687 00000000002309eb 00000000000f4240",
		State:   tokenbucket.State{At: 946684801234567, Level: 2296299, Unit: 1000000},
	}, {
		Options: tokenbucket.Options{Limit: algo.Per(100, time.Minute), Burst: 300},
		Hex:     "74 01 035d013b4ab687 00000000002417f9 00000000000927c0",
		State:   tokenbucket.State{At: 946684801234567, Level: 2365433, Unit: 600000},
	}, {
		Options: tokenbucket.Options{Limit: algo.Per(3, time.Second), Burst: 5, Refill: interval},
		Hex:     "74 01 035d013b4ab687 0000000000000003 0008000000039447",
		State:   tokenbucket.State{At: 946684801234567, Level: 3, Unit: begun + 234567},
	}},
	Decode: []tokenbucket.Options{{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2}, {Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2, Refill: interval}},
	At:     func(s tokenbucket.State) int64 { return s.At },
	Nearest: [][2]tokenbucket.State{
		{{At: 5, Unit: 7}, {}},
		{{At: 5, Level: -1, Unit: 7}, {}},
		{{At: 5, Level: 3}, {At: 5, Level: 3, Unit: 1}},
		{{At: 5, Level: 3, Unit: -1}, {At: 5, Level: 3, Unit: 1}},
		{{At: -5, Level: 3, Unit: 2}, {Level: 3, Unit: 2}},
		{{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {algo.MaxInstant, algo.MaxLevel, algo.MaxLevel}},
	},
}

func TestPackage(t *testing.T) { suite.Run(t) }

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }

func TestLaws(t *testing.T) {
	for _, o := range []tokenbucket.Options{{}, {Burst: 3}, {Refill: interval}, {Burst: 3, Refill: interval}, {Burst: 1 << 40}, {Burst: 1 << 40, Refill: interval}} {
		name, oracle := fmt.Sprintf("tokenbucket burst=%d refill=%v", o.Burst, o.Refill), algotest.Bucket
		if o.Refill == interval {
			oracle = algotest.IntervalBucket
		}
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name, New: suite.NewWithLimit(o), Recode: suite.Recode,
				Oracle: func(l algo.Limit) algotest.Oracle { return oracle(l, policy.Or(o.Burst, l.Count)) },
			})
		})
	}
}

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) tokenbucket.Options {
	for {
		limit := random.Limit()
		burst := sample.OneOf(random, random.Int64N(9), random.UpTo(limit.Count), random.UpTo(algo.MaxCount))
		o := tokenbucket.Options{Limit: limit, Burst: burst, Refill: tokenbucket.Refill(random.IntN(2))}
		if o.Validate() == nil {
			return o
		}
	}
}

// FuzzStep compares functions, methods and the model, for any state, time and options. The period is in microseconds.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	f.Add(int64(3), int64(1e6), int64(0), 0, int64(1), int64(at), int64(2300792), int64(1e6), int64(sec+1), int64(5))       // a part of a token
	f.Add(int64(60), int64(60e6), int64(90), 1, int64(30), int64(at), int64(90), int64(1), int64(sec+59), int64(999999999)) // 1us before a refill
	f.Add(int64(10), int64(1e6), int64(3), 1, int64(1), int64(at), int64(2000), int64(1), int64(sec-1), int64(0))           // a debt, a clock that is behind
	f.Add(int64(7), int64(1e6), int64(5), 0, int64(2), int64(at), int64(11), int64(3), int64(sec), int64(0))                // another weight
	f.Add(int64(0), int64(1e6), int64(0), 0, int64(1), int64(at), int64(1), int64(1), int64(sec), int64(0))                 // not valid
	f.Add(algo.MaxCount, int64(1), algo.MaxCount, 0, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, count, period, burst int64, refill int, cost, at, level, unit, sec, nsec int64) {
		o := tokenbucket.Options{Limit: algo.Per(count, time.Duration(period)*time.Microsecond), Burst: burst, Refill: tokenbucket.Refill(refill), Cost: cost}
		suite.EachOp(t, tokenbucket.State{At: at, Level: level, Unit: unit}, time.Unix(sec, nsec), o)
	})
}

func FuzzDecode(f *testing.F) { suite.FuzzDecode(f) }
