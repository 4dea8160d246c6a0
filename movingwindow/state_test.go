package movingwindow_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/movingwindow"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 40, 290}, []policytest.Golden[movingwindow.State, movingwindow.Options]{
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Second)},
			Hex:     "6d 01 035d013b4ab687 000000000f4240 1002 0122 002b",
			State:   movingwindow.State{At: 946684801234567, Width: 1e6, Counts: [17]int64{290, 43}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(200, time.Minute)},
			Hex:     "6d 01 035d013b446f05 00000003938700 0801 2b",
			State:   movingwindow.State{At: 946684800823045, Width: 60e6, Counts: [17]int64{43}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 7, Trailing: movingwindow.Whole},
			Hex:     "6d 01 035d013b4ab687 00000000022e0a 1007 0122 0000 0000 0028 0000 0000 0001",
			State:   movingwindow.State{At: 946684801234567, Width: 142858, Counts: [17]int64{290, 0, 0, 40, 0, 0, 1}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(200, time.Second), Slots: 24},
			Hex:     "6d 01 035d013b446f05 0000000000a2c3 0815 28 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 02",
			State:   movingwindow.State{At: 946684800823045, Width: 41667, LongCounts: []int64{0: 40, 10: 1, 20: 2}},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	manyZeros := strings.Repeat("00", 1024)
	kit.ParseErrors(t, map[string]error{
		"6d":   algo.ErrState,
		"6d01": algo.ErrState,
		"6d 00 00000000000005 00000000000007 0801 01": algo.ErrState, // version 0
		"67 01 00000000000005 00000000000007 0801 01": algo.ErrState, // of another algorithm
		"6d02": algo.ErrStateVersion,
		"6d 02 00000000000005 00000000000007 0801 01": algo.ErrStateVersion,
		"6dff 00":                                                                algo.ErrStateVersion,
		"6d 01 00000000000005":                                                   algo.ErrState, // truncated
		"6d 01 00000000000005 00000000000007":                                    algo.ErrState,
		"6d 01 00000000000005 00000000000007 08":                                 algo.ErrState,
		"6d 01 00000000000005 00000000000007 0801":                               algo.ErrState,
		"6d 01 00000000000005 00000000000007 0802 01":                            algo.ErrState,
		"6d 01 00000000000005 00000000000007 1001 01":                            algo.ErrState,
		"6d 01 00000000000005 00000000000007 0801 0101":                          algo.ErrState, // a byte too many
		"6d 01 00000000000005 00000000000007 0800":                               algo.ErrState, // no units used, which is no bytes
		"6d 01 00000000000005 00000000000007 0801 00":                            algo.ErrState,
		"6d 01 00000000000005 00000000000007 0802 0100":                          algo.ErrState, // the oldest count is not 0
		"6d 01 00000000000005 00000000000007 0001":                               algo.ErrState, // a count of no bytes
		"6d 01 00000000000005 00000000000007 4001 0000000000000001":              algo.ErrState, // a count of eight bytes
		"6d 01 00000000000005 00000000000007 1001 0001":                          algo.ErrState, // one byte is enough
		"6d 01 00000000000005 00000000000007 3801 00ffffffffffff":                algo.ErrState,
		"6d 01 00000000000005 00000000000007 3801 10000000000000":                algo.ErrState, // 2^52 used
		"6d 01 00000000000005 00000000000007 3802 0fffffffffffff 00000000000001": algo.ErrState,
		"6d 01 10000000000000 00000000000007 0801 01":                            algo.ErrState, // after MaxInstant
		"6d 01 ffffffffffffff 00000000000007 0801 01":                            algo.ErrState,
		"6d 01 00000000000005 00000000000000 0801 01":                            algo.ErrState, // no width
		"6d 01 00000000000005 10000000000000 0801 01":                            algo.ErrState, // a width of 2^52
		"6d 01 00000000000005 ffffffffffffff 0801 01":                            algo.ErrState,
		"6d 01 00000000000005 00000000000007 0c02" + manyZeros + "0001":          algo.ErrState, // 1026 counts
	})
	kit.ParseStates(t, map[string]movingwindow.State{
		"": {},
		"6d 01 00000000000005 00000000000007 0801 01":                                    {At: 5, Width: 7, Counts: [17]int64{1}},
		"6d 01 00000000000005 00000000000007 0803 000001":                                {At: 5, Width: 7, Counts: [17]int64{2: 1}},
		"6d 01 0fffffffffffff 0fffffffffffff 3802 0ffffffffffffe 00000000000001":         {At: algo.MaxInstant, Width: algo.MaxLevel, Counts: [17]int64{algo.MaxLevel - 1, 1}},
		"6d 01 00000000000005 00000000000007 0812 0000000000000000000000000000000000 05": {At: 5, Width: 7, LongCounts: []int64{17: 5}},
		"6d 01 00000000000005 00000000000007 0c01" + manyZeros + "01":                    {At: 5, Width: 7, LongCounts: []int64{1024: 1}},
	})
}

func TestStatesAreNormalized(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(10, 12*time.Microsecond), Slots: 3}
	few := func(counts ...int64) (f [17]int64) {
		copy(f[:], counts)
		return f
	}
	kit.NormalizedStates(t, o, [][2]movingwindow.State{
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
	})
}

// States may share LongCounts, so no function may write to it.
func TestLongCountsAreCopiedBeforeAChange(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(1000, 40*time.Second), Slots: 40}
	var s movingwindow.State
	for i := range 30 {
		s, _ = movingwindow.Step(s, start.Add(time.Duration(i)*time.Second), o)
	}
	require.Len(t, s.LongCounts, 30)
	before := append([]int64{}, s.LongCounts...)
	for _, op := range policy.Ops {
		for _, after := range []time.Duration{29, 30, 50, 69, 70, 100} {
			next, _ := kit.Call(s, op, start.Add(after*time.Second), o)
			require.Equal(t, before, s.LongCounts)
			if op != policy.Peek && len(next.LongCounts) > 0 && &next.LongCounts[0] == &s.LongCounts[0] {
				require.Equal(t, s, next, "a changed state shares its counts")
			}
		}
	}
}

func TestStatesHaveTheDocumentedSizes(t *testing.T) {
	for _, c := range []struct {
		slots, size int
		cost        int64
	}{{1, 20, 255}, {1, 22, 1<<16 - 1}, {12, 31, 255}, {12, 44, 1<<16 - 1}} {
		o := movingwindow.Options{Limit: algo.Per(1<<20, time.Duration(c.slots)*time.Second), Slots: c.slots, Cost: c.cost}
		var s movingwindow.State
		for i := range c.slots + 1 {
			s, _ = movingwindow.Step(s, start.Add(time.Duration(i)*time.Second), o)
		}
		require.Len(t, movingwindow.AppendState(nil, s), c.size)
	}
}
