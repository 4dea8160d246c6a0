package movingwindow_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/movingwindow"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 40, 90}, []algorithmtest.Golden[movingwindow.State, movingwindow.Options]{
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Second)},
			Hex:     "6d01 0d234ccf9bd902ab 000000003b9aca00 02 5a2b",
			State:   movingwindow.State{At: 946684801234567851, Width: 1e9, Counts: [17]int64{90, 43}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Minute)},
			Hex:     "6d01 0d234ccf9bd902ab 0000000df8475800 01 8501",
			State:   movingwindow.State{At: 946684801234567851, Width: 60e9, Counts: [17]int64{133}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 7, Trailing: movingwindow.Whole},
			Hex:     "6d01 0d234ccf9bd902ab 000000000883d3b7 07 5a000028000001",
			State:   movingwindow.State{At: 946684801234567851, Width: 142857143, Counts: [17]int64{90, 0, 0, 40, 0, 0, 1}},
		},
		{
			Options: movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 24},
			Hex:     "6d01 0d234ccf9bd902ab 00000000027bc86b 14 5a00000000000000000028000000000000000001",
			State:   movingwindow.State{At: 946684801234567851, Width: 41666667, LongCounts: []int64{0: 90, 10: 40, 19: 1}},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	manyZeros := strings.Repeat("00", 1024)
	kit.ParseErrors(t, map[string]error{
		"6d":   algo.ErrState,
		"6d01": algo.ErrState,
		"6d00 0000000000000005 0000000000000007 01 01": algo.ErrState,
		"6701 0000000000000005 0000000000000007 01 01": algo.ErrState, // of another algorithm
		"6d02": algo.ErrStateVersion,
		"6d02 0000000000000005 0000000000000007 01 01": algo.ErrStateVersion,
		"6dff 00": algo.ErrStateVersion,

		"6d01 00000000000000":                             algo.ErrState, // truncated
		"6d01 0000000000000005":                           algo.ErrState,
		"6d01 0000000000000005 0000000000000007":          algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01":       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 80":    algo.ErrState,
		"6d01 0000000000000005 0000000000000007 02 01":    algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 01 00": algo.ErrState, // a byte too many
		"6d01 0000000000000005 0000000000000007 01 01 01": algo.ErrState,

		"6d01 0000000000000005 0000000000000007 00":                            algo.ErrState, // no units used, which is no bytes
		"6d01 0000000000000005 0000000000000007 01 00":                         algo.ErrState,
		"6d01 0000000000000005 0000000000000007 02 0100":                       algo.ErrState, // the oldest count is not 0
		"6d01 4000000000000000 0000000000000007 01 01":                         algo.ErrState, // after MaxInstant
		"6d01 ffffffffffffffff 0000000000000007 01 01":                         algo.ErrState,
		"6d01 0000000000000005 0000000000000000 01 01":                         algo.ErrState, // no width
		"6d01 0000000000000005 4000000000000001 01 01":                         algo.ErrState, // a width of 2^62+1
		"6d01 0000000000000005 0000000000000007 01 80808080808080808001":       algo.ErrState, // 2^63 used
		"6d01 0000000000000005 0000000000000007 02 ffffffffffffffff7f 01":      algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 818080808080808040":         algo.ErrState, // 2^62+1 used
		"6d01 0000000000000005 0000000000000007 8100 01":                       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 8100":                       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 ffffffffffffffffff02":       algo.ErrState, // beyond 64 bits
		"6d01 0000000000000005 0000000000000007 8208" + manyZeros + "0001":     algo.ErrState, // 1026
		"6d01 0000000000000005 0000000000000007 ffffffffffffffffff01 01":       algo.ErrState, // 2^64-1 counts
		"6d01 0000000000000005 0000000000000007 80808080808080808080808001 01": algo.ErrState,
	})
	kit.ParseStates(t, map[string]movingwindow.State{
		"": {},
		"6d01 0000000000000005 0000000000000007 01 01":                                          {At: 5, Width: 7, Counts: [17]int64{1}},
		"6d01 0000000000000005 0000000000000007 03 000001":                                      {At: 5, Width: 7, Counts: [17]int64{2: 1}},
		"6d01 3fffffffffffffff 4000000000000000 02 808080808080808040 ffffffffffffffff3f":       {At: algo.MaxInstant, Width: 1 << 62, Counts: [17]int64{algo.MaxCount, algo.MaxCount - 1}},
		"6d01 0000000000000005 0000000000000007 12 0000000000000000000000000000000000 05":       {At: 5, Width: 7, LongCounts: []int64{17: 5}},
		"6d01 0000000000000005 0000000000000007 12 0000000000000000000000000000000000 feffff7f": {At: 5, Width: 7, LongCounts: []int64{17: 1<<28 - 2}},
	})
	for _, text := range []string{
		"6d01 0000000000000005 0000000000000007 01 808080808080808040",
		"6d01 0000000000000005 0000000000000007 8008" + manyZeros[2:] + "01",
		"6d01 0000000000000005 0000000000000007 8108" + manyZeros + "01",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		require.NoError(t, err)
		_, err = movingwindow.ParseState(b)
		require.NoError(t, err, "a count of 2^62, 1024 counts, and 1025 counts are the largest")
	}
}

func TestStatesAreNormalized(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(10, 12), Slots: 3}
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
		{{At: 5, Width: 4, Counts: few(math.MaxInt64, math.MaxInt64)}, {At: 5, Width: 4, Counts: few(algo.MaxCount, algo.MaxCount-1)}},
		{{At: 5, Width: 4, Counts: few(1, math.MaxInt64, 1)}, {At: 5, Width: 4, Counts: few(1, algo.MaxCount, 1)}},
		{{At: 5, Width: 4, Counts: few(math.MinInt64, math.MinInt64, 1)}, {At: 5, Width: 4, Counts: few(0, 0, 1)}},
		{{At: -5, Width: 4, Counts: few(3)}, {Width: 4, Counts: few(3)}},
		{{At: math.MaxInt64, Width: 4, Counts: few(3)}, {At: algo.MaxInstant, Width: 4, Counts: few(3)}},
		{{At: 5, Width: math.MaxInt64, Counts: few(3)}, {At: 5, Width: 1 << 62, Counts: few(3)}},
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
	for _, op := range algorithm.Ops {
		for _, after := range []time.Duration{29, 30, 50, 69, 70, 100} {
			next, _ := kit.Call(s, op, start.Add(after*time.Second), o)
			require.Equal(t, before, s.LongCounts)
			if op != algorithm.Peek && len(next.LongCounts) > 0 && &next.LongCounts[0] == &s.LongCounts[0] {
				require.Equal(t, s, next, "a changed state shares its counts")
			}
		}
	}
}

// Slots older than the oldest one in use take no bytes.
func TestStateOfOneUnitIsSmall(t *testing.T) {
	p, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(1000, time.Minute), Slots: movingwindow.MaxSlots})
	require.NoError(t, err)
	state, _, err := p.Step(nil, nil, start, 1)
	require.NoError(t, err)
	require.Len(t, state, 2+8+8+1+1)
}

func TestStatesHaveTheDocumentedSizes(t *testing.T) {
	for _, c := range []struct{ slots, least, most int }{{1, 20, 23}, {12, 20, 45}} {
		o := movingwindow.Options{Limit: algo.Per(1<<20, time.Duration(c.slots)*time.Second), Slots: c.slots, Cost: 1<<14 - 1}
		var s movingwindow.State
		for i := range c.slots + 1 {
			s, _ = movingwindow.Step(s, start.Add(time.Duration(i)*time.Second), o)
		}
		require.Len(t, movingwindow.AppendState(nil, s), c.most)
		o.Cost = 127
		s, _ = movingwindow.Step(movingwindow.State{}, start, o)
		require.Len(t, movingwindow.AppendState(nil, s), c.least)
	}
}
