// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that a changed limit or alignment keeps the units used; and that encoded
// states stay readable.
package fixedwindow_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

const (
	clock      = fixedwindow.AlignClock
	mostOffset = math.MaxInt64 / time.Microsecond * time.Microsecond
)

var daily = algo.Per(5, 24*time.Hour)

var suite = policytest.Suite[fixedwindow.State, fixedwindow.Options, fixedwindow.Policy]{
	Name: "fixedwindow",
	Step: fixedwindow.Step, Peek: fixedwindow.Peek, Refund: fixedwindow.Refund, Charge: fixedwindow.Charge,
	New: fixedwindow.New, AppendState: fixedwindow.AppendState, ParseState: fixedwindow.ParseState, Model: operate,
	AnyOptions: anyOptions,
	Bound: func(o fixedwindow.Options, m int64) *big.Int {
		period := o.Limit.Period.Microseconds()
		windows := big.NewInt(1 + (m+period-1)/period)
		bound := windows.Mul(windows, big.NewInt(o.Limit.Count))
		if o.Align == fixedwindow.AlignFirst && m%period > 0 {
			bound.Sub(bound, big.NewInt(1))
		}
		return bound
	},
	Invalid: map[string]fixedwindow.Options{
		"Align must be AlignFirst or AlignClock, got 2":                                {Limit: daily, Align: 2},
		"Align must be AlignFirst or AlignClock, got -1":                               {Limit: daily, Align: -1},
		"Offset is for AlignClock; with AlignFirst it must be 0, got 1m":               {Limit: daily, Offset: time.Minute},
		"Offset must be a whole number of microseconds, got 1.5µs; the nearest is 2µs": {Limit: daily, Align: clock, Offset: 1500},
	},
	Extreme: []fixedwindow.Options{
		{Limit: algo.Per(1, time.Microsecond)},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod), Align: clock, Offset: -mostOffset},
		{Limit: algo.Per(1, time.Microsecond), Align: clock, Offset: mostOffset},
	},
	Specs: map[string]fixedwindow.Options{
		"fixedwindow 10/s":                          {Limit: algo.Per(10, time.Second)},
		"fixedwindow 5/h align=clock offset=15m":    {Limit: algo.Per(5, time.Hour), Align: clock, Offset: 15 * time.Minute},
		"fixedwindow 5/d align=clock offset=-2h":    {Limit: daily, Align: clock, Offset: -2 * time.Hour},
		"fixedwindow 5/d align=clock offset=1m0.5s": {Limit: daily, Align: clock, Offset: 60500 * time.Millisecond},
	},
	Costs: []int64{2, 1, 40, 90},
	Golden: []policytest.Golden[fixedwindow.State, fixedwindow.Options]{{
		Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second)},
		Hex:     "66 01 035d013b4ab687 000000000000005a",
		State:   fixedwindow.State{Start: 946684801234567, Used: 90},
	}, {
		Options: fixedwindow.Options{Limit: algo.Per(1000, time.Minute)},
		Hex:     "66 01 035d013b37e000 0000000000000085",
		State:   fixedwindow.State{Start: 946684800000000, Used: 133},
	}, {
		Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second), Align: clock, Offset: 500 * time.Millisecond},
		Hex:     "66 01 035d013b446f05 0000000000000082",
		State:   fixedwindow.State{Start: 946684800823045, Used: 130},
	}},
	Decode: []fixedwindow.Options{{Limit: algo.Per(7, time.Second), Cost: 2}, {Limit: algo.Per(7, time.Second), Cost: 2, Align: clock}},
	At:     func(s fixedwindow.State) int64 { return s.Start },
	Nearest: [][2]fixedwindow.State{
		{{Start: 5}, {}},
		{{Start: math.MaxInt64, Used: -1}, {}},
		{{Start: 5, Used: math.MaxInt64}, {Start: 5, Used: algo.MaxLevel}},
		{{Start: math.MinInt64, Used: 3}, {Used: 3}},
		{{Start: math.MaxInt64, Used: 3}, {Start: algo.MaxInstant, Used: 3}},
	},
}

func TestPackage(t *testing.T) { suite.Run(t) }

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }

func TestLaws(t *testing.T) {
	for _, o := range []fixedwindow.Options{
		{},
		{Align: clock},
		{Align: clock, Offset: 2 * time.Microsecond},
		{Align: clock, Offset: -7 * time.Minute},
	} {
		name := "fixedwindow align=" + o.Align.String() + " offset=" + o.Offset.String()
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name, New: suite.NewWithLimit(o), Recode: suite.Recode, Windowed: true,
				Oracle: func(l algo.Limit) algotest.Oracle {
					if o.Align == clock {
						return algotest.WindowByClock(l, o.Offset)
					}
					return algotest.WindowFromFirst(l)
				},
			})
		})
	}
}

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) fixedwindow.Options {
	o := fixedwindow.Options{Limit: random.Limit(), Align: fixedwindow.Align(random.IntN(2))}
	if o.Align == clock {
		any := time.Duration(random.UpTo(math.MaxInt64)).Truncate(time.Microsecond)
		o.Offset = sample.OneOf(random, 0, time.Duration(random.Int64N(25)-12)*time.Microsecond, any, -any)
	}
	return o
}

// FuzzStep compares functions, methods and the model, for any state, time and options. The period and the offset are in
// microseconds.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	f.Add(int64(10), int64(60e6), 0, int64(0), int64(3), int64(at), int64(8), int64(sec+59), int64(999_999_999)) // 1us before the end
	f.Add(int64(10), int64(60e6), 1, int64(-7e6), int64(3), int64(at), int64(2000), int64(sec-1), int64(0))      // a debt, a clock that is behind
	f.Add(int64(10), int64(60e6), 0, int64(1), int64(1), int64(at), int64(1), int64(sec), int64(0))              // not valid
	f.Add(algo.MaxCount, int64(1), 1, int64(math.MaxInt64/1000), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, count, period int64, align int, offset, cost, start, used, sec, nsec int64) {
		o := fixedwindow.Options{
			Limit: algo.Per(count, time.Duration(period)*time.Microsecond),
			Align: fixedwindow.Align(align), Offset: time.Duration(offset) * time.Microsecond, Cost: cost,
		}
		suite.EachOp(t, fixedwindow.State{Start: start, Used: used}, time.Unix(sec, nsec), o)
	})
}

func FuzzDecode(f *testing.F) { suite.FuzzDecode(f) }
