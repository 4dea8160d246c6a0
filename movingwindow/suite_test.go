// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that a changed limit keeps the units used; and that encoded states stay readable.
package movingwindow_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/movingwindow"
)

const whole = movingwindow.Whole

var second = algo.Per(1, time.Second)

// few returns the counts of a State with up to 17.
func few(counts ...int64) (f [17]int64) {
	copy(f[:], counts)
	return f
}

var suite = policytest.Suite[movingwindow.State, movingwindow.Options, movingwindow.Policy]{
	Name: "movingwindow",
	Step: movingwindow.Step, Peek: movingwindow.Peek, Refund: movingwindow.Refund, Charge: movingwindow.Charge,
	New: movingwindow.New, AppendState: movingwindow.AppendState, ParseState: movingwindow.ParseState, Model: operate,
	AnyOptions: anyOptions,
	Bound:      documentedBound,
	Invalid: map[string]movingwindow.Options{
		"movingwindow: Slots must be from 1 to 1024, or 0 for 1, got -1":   {Limit: second, Slots: -1},
		"movingwindow: Slots must be from 1 to 1024, or 0 for 1, got 1025": {Limit: second, Slots: 1025},
		"movingwindow: PaidAt needs Trailing Whole, got weighted":          {Limit: second, PaidAt: policytest.Start},
		"movingwindow: Trailing must be Weighted or Whole, got 2":          {Limit: second, Trailing: 2},
		"movingwindow: Trailing must be Weighted or Whole, got -1":         {Limit: second, Trailing: -1},
	},
	Extreme: []movingwindow.Options{
		{Limit: algo.Per(1, time.Microsecond)},
		{Limit: algo.Per(1, time.Microsecond), Slots: 1024},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod), Slots: 1024, Trailing: whole},
	},
	Specs: map[string]movingwindow.Options{
		"movingwindow 10/m":                              {Limit: algo.Per(10, time.Minute), Slots: 1, Cost: 1},
		"movingwindow 100/m slots=12":                    {Limit: algo.Per(100, time.Minute), Slots: 12},
		"movingwindow 100/m trailing=whole":              {Limit: algo.Per(100, time.Minute), Trailing: whole},
		"movingwindow 1/250ms slots=1024 trailing=whole": {Limit: algo.Per(1, 250*time.Millisecond), Slots: 1024, Trailing: whole},
	},
	Costs: []int64{2, 1, 40, 290},
	Golden: []policytest.Golden[movingwindow.State, movingwindow.Options]{{
		Options: movingwindow.Options{Limit: algo.Per(1000, time.Second)},
		Hex:     "6d 01 035d013b4ab687 000000000f4240 1002 0122 002b",
		State:   movingwindow.State{At: 946684801234567, Width: 1e6, Counts: few(290, 43)},
	}, {
		Options: movingwindow.Options{Limit: algo.Per(200, time.Minute)},
		Hex:     "6d 01 035d013b446f05 00000003938700 0801 2b",
		State:   movingwindow.State{At: 946684800823045, Width: 60e6, Counts: few(43)},
	}, {
		Options: movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 7, Trailing: whole},
		Hex:     "6d 01 035d013b4ab687 00000000022e0a 1007 0122 0000 0000 0028 0000 0000 0001",
		State:   movingwindow.State{At: 946684801234567, Width: 142858, Counts: few(290, 0, 0, 40, 0, 0, 1)},
	}, {
		Options: movingwindow.Options{Limit: algo.Per(200, time.Second), Slots: 24},
		Hex:     "6d 01 035d013b446f05 0000000000a2c3 0815 28 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 02",
		State:   movingwindow.State{At: 946684800823045, Width: 41667, LongCounts: []int64{0: 40, 10: 1, 20: 2}},
	}},
	Decode: []movingwindow.Options{
		{Limit: algo.Per(7, time.Second), Slots: 1, Cost: 2}, {Limit: algo.Per(7, time.Second), Slots: 12, Cost: 2},
		{Limit: algo.Per(7, time.Second), Slots: 30, Cost: 2}, {Limit: algo.Per(10, 12*time.Microsecond), Slots: 3},
	},
	At: func(s movingwindow.State) int64 { return s.At },
	Nearest: [][2]movingwindow.State{
		{{At: 5, Counts: few(1)}, {}},
		{{At: 5, Width: -4, Counts: few(1)}, {}},
		{{At: 5, Width: 4}, {}},
		{{At: 5, Width: 4, Counts: few(-1, -1)}, {}},
		{{At: 5, Width: 4, Counts: few(-1, 2)}, {At: 5, Width: 4, Counts: few(0, 2)}},
		{{At: 5, Width: 4, Counts: few(math.MaxInt64, math.MaxInt64)}, {At: 5, Width: 4, Counts: few(algo.MaxLevel)}},
		{{At: 5, Width: 4, Counts: few(1, math.MaxInt64, 1)}, {At: 5, Width: 4, Counts: few(1, algo.MaxLevel-1)}},
		{{At: 1005, Width: 4, Counts: few(math.MinInt64, math.MinInt64, 1)}, {At: 1005, Width: 4, Counts: few(0, 0, 1)}},
		{{At: -5, Width: 4, Counts: few(3)}, {Width: 4, Counts: few(3)}},
		{{At: math.MaxInt64, Width: 4, Counts: few(3)}, {At: algo.MaxInstant, Width: 4, Counts: few(3)}},
		{{At: 5, Width: math.MaxInt64, Counts: few(3)}, {At: 5, Width: algo.MaxLevel, Counts: few(3)}},
		{{At: 5, Width: 4, LongCounts: []int64{}}, {}},
		{{At: 5, Width: 4, LongCounts: []int64{2, 1, 0}}, {At: 5, Width: 4, Counts: few(2, 1)}},
		{{At: 5, Width: 4, Counts: few(9), LongCounts: []int64{2}}, {At: 5, Width: 4, Counts: few(2)}},
		{{At: 5, Width: 4, Counts: few(9), LongCounts: []int64{2: -7}}, {}},
		{{At: 5, Width: 4, LongCounts: []int64{2, 2000: 3}}, {At: 5, Width: 4, Counts: few(2)}},
	},
}

func TestPackage(t *testing.T) { suite.Run(t) }

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }

// The sum of the counts of a lowered limit must leave room for the next step, or else the step after it would cut them again.
func TestStepsAfterALoweredLimitKeepTheUnitsInUse(t *testing.T) {
	policyOf := func(count int64) movingwindow.Policy {
		p, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(count, time.Hour)})
		require.NoError(t, err)
		return p
	}
	begin := time.Unix(1_700_000_000, 0).Truncate(time.Hour)
	before, lowered, at := policyOf(20_000_000), policyOf(2_000_000), begin.Add(114*time.Minute)
	state, _, err := before.Step(nil, nil, begin.Add(30*time.Minute), 20_000_000)
	require.NoError(t, err)
	for range 5 {
		left, err := lowered.Peek(state, at, 1)
		require.NoError(t, err)
		var r algo.Result
		state, r, err = lowered.Step(nil, state, at, 100_000)
		require.NoError(t, err)
		require.Equal(t, left.Remaining-100_000, r.Remaining)
		again, err := lowered.Peek(state, at, 1)
		require.NoError(t, err)
		require.Equal(t, r.Remaining, again.Remaining)
		require.Equal(t, r.NextRefill, again.NextRefill)
	}
}

func TestLaws(t *testing.T) {
	for _, o := range []movingwindow.Options{
		{},
		{Slots: 3},
		{Trailing: whole},
		{Slots: 4, Trailing: whole},
		{Slots: 16}, // the most that need no allocation
		{Slots: 20, Trailing: whole},
	} {
		name := fmt.Sprintf("movingwindow slots=%d trailing=%v", max(o.Slots, 1), o.Trailing)
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name, New: suite.NewWithLimit(o), Recode: suite.Recode, Windowed: true, Allocates: o.Slots > 16,
				Oracle: func(l algo.Limit) algotest.Oracle {
					return algotest.MovingWindow(l, max(o.Slots, 1), o.Trailing == whole)
				},
			})
		})
	}
}

// documentedBound is the formula of the package comment.
func documentedBound(o movingwindow.Options, m int64) *big.Int {
	l, n := big.NewInt(o.Limit.Count), max(int64(o.Slots), 1)
	w := newModel(o).width
	u, e := (m-1)/w-(n-1), (m-1)%w
	bound := func(windows int64) *big.Int { return new(big.Int).Mul(l, big.NewInt(windows)) }
	switch {
	case m == 0:
		return l
	case o.Trailing == whole:
		return bound((2 + (m-1)/w + n) / (n + 1))
	case u < 0:
		return l
	case u%n != 0:
		return bound(2 + u/n)
	}
	part := bound(e)
	return part.Add(part.Div(part, big.NewInt(w)), bound(1+u/n))
}

// A caller that retries as soon as it can gets the share of the limit that the doc states.
func TestShareOfAGreedyCaller(t *testing.T) {
	for o, want := range map[[3]int]float64{ // count, slots and trailing
		{1, 1, 0}: 50, {5, 1, 0}: 80, {100, 1, 0}: 99, {1, 8, 0}: 89, {1, 1, 1}: 50, {5, 1, 1}: 50, {100, 1, 1}: 50, {1, 8, 1}: 89, {100, 12, 1}: 92,
	} {
		o := movingwindow.Options{Limit: algo.Per(int64(o[0]), time.Minute), Slots: o[1], Trailing: movingwindow.Trailing(o[2])}
		const periods = 2000
		var s movingwindow.State
		var got int64
		for now := time.Duration(0); now < periods*time.Minute; {
			next, r := movingwindow.Step(s, policytest.Start.Add(now), o)
			got, s = got+r.Paid, next
			now += r.RetryAfter
		}
		require.InDelta(t, want, 100*float64(got)/float64(periods*o.Limit.Count), 0.6, "%+v", o)
	}
}

// If slots become longer, several counts can move to one slot. Their sum must not be too large.
func TestJoinedCountsDoNotOverflow(t *testing.T) {
	var s movingwindow.State
	for _, spend := range []struct{ period, at time.Duration }{{time.Second, 0}, {time.Second, 2*time.Second - 1000}, {2 * time.Second, 4*time.Second - 1000}} {
		o, at := movingwindow.Options{Limit: algo.Per(algo.MaxCount, spend.period)}, time.Unix(0, int64(spend.at))
		o.Cost = movingwindow.Peek(s, at, o).Remaining
		require.Greater(t, o.Cost, algo.MaxCount/2)
		s, _ = suite.Do(t, s, policy.Step, at, o)
	}
	_, err := movingwindow.ParseState(movingwindow.AppendState(nil, s))
	require.NoError(t, err)
}

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) movingwindow.Options {
	slots := sample.OneOf(random, 0, 1, 2, 6, 12, 16, 17, 60, random.IntN(6), int(random.UpTo(movingwindow.MaxSlots)))
	return movingwindow.Options{Limit: random.Limit(), Slots: slots, Trailing: movingwindow.Trailing(random.IntN(2))}
}

// FuzzStep compares functions, methods and the model, for any state, time and options. The period is in microseconds. A width
// of 0 means that of the options. Each count is 8 bytes, little endian. A paidAt of 0 means none.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	counts := func(counts ...int64) (b []byte) {
		for _, c := range counts {
			b = binary.LittleEndian.AppendUint64(b, uint64(c))
		}
		return b
	}
	f.Add(int64(10), int64(60e6), 6, 0, int64(3), int64(at), int64(0), counts(2, 0, 1, 0, 0, 0, 4), int64(sec+3), int64(0), int64(0))                         // a trailing slot
	f.Add(int64(10), int64(60e6), 1, 1, int64(3), int64(at), int64(0), counts(2000, 7), int64(sec-1), int64(0), int64(0))                                     // a debt, a clock that is behind
	f.Add(int64(10), int64(60e6), 30, 0, int64(3), int64(at), int64(0), counts(append(make([]int64, 19), 5)...), int64(sec+21), int64(999_999_999), int64(0)) // many slots
	f.Add(int64(10), int64(60e6), 2, 0, int64(1), int64(at), int64(7e6), counts(1, 2, 3, 4, 5), int64(sec), int64(0), int64(0))                               // other slots
	f.Add(int64(10), int64(0), 2, 0, int64(1), int64(at), int64(7e6), counts(1), int64(sec), int64(0), int64(0))                                              // not valid
	f.Add(algo.MaxCount, int64(1), 1024, 0, int64(9), int64(math.MaxInt64), int64(math.MaxInt64), counts(math.MaxInt64, math.MinInt64, math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(10), int64(60e6), 3, 1, int64(2), int64(at), int64(0), counts(1, 3, 0, 4), int64(sec+15), int64(0), int64(at-15e6)) // units that are held
	f.Add(int64(10), int64(60e6), 3, 1, int64(2), int64(at), int64(0), counts(1, 1, 0, 4), int64(sec+15), int64(0), int64(at+90e6)) // held after a clock stepped back
	f.Add(int64(10), int64(1), 1, 1, int64(1), int64(0), int64(0), counts(1), int64(0), int64(0), int64(-1))                        // held since the first instant
	f.Fuzz(func(t *testing.T, count, period int64, slots, trailing int, cost, at, width int64, counts []byte, sec, nsec, paidAt int64) {
		o := movingwindow.Options{
			Limit: algo.Per(count, time.Duration(period)*time.Microsecond),
			Slots: slots, Trailing: movingwindow.Trailing(trailing), Cost: cost,
		}
		if paidAt != 0 {
			o.PaidAt = time.UnixMicro(paidAt)
		}
		if width == 0 && o.Validate() == nil {
			width = newModel(o).width
		}
		suite.EachOp(t, stateOf(at, width, counts), time.Unix(sec, nsec), o)
	})
}

func stateOf(at, width int64, counts []byte) movingwindow.State {
	all := make([]int64, len(counts)/8)
	for i := range all {
		all[i] = int64(binary.LittleEndian.Uint64(counts[8*i:]))
	}
	if len(all) > 17 {
		return movingwindow.State{At: at, Width: width, LongCounts: all}
	}
	return movingwindow.State{At: at, Width: width, Counts: few(all...)}
}

func FuzzDecode(f *testing.F) {
	suite.FuzzDecode(f, func(t *testing.T, b []byte, s movingwindow.State) {
		require.LessOrEqual(t, cap(s.LongCounts), len(b), "more counts than bytes are allocated")
	})
}
