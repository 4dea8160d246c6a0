package movingwindow_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/movingwindow"
)

var y2k = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// golden are states in mid-stream: after 2, 1, 40 and 90 units, 411.522617ms apart.
// Stores hold such bytes, so they are to be read like this for ever.
var golden = []struct {
	o     movingwindow.Options
	state string
	is    movingwindow.State
}{
	{
		movingwindow.Options{Limit: algo.Per(1000, time.Second)},
		"6d01 0d234ccf9bd902ab 000000003b9aca00 02 5a2b",
		movingwindow.State{At: 946684801234567851, Width: 1e9, Few: [17]int64{90, 43}},
	},
	{
		movingwindow.Options{Limit: algo.Per(1000, time.Minute)},
		"6d01 0d234ccf9bd902ab 0000000df8475800 01 8501",
		movingwindow.State{At: 946684801234567851, Width: 60e9, Few: [17]int64{133}},
	},
	{
		movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 7, Trailing: movingwindow.Whole},
		"6d01 0d234ccf9bd902ab 000000000883d3b7 07 5a000028000001",
		movingwindow.State{At: 946684801234567851, Width: 142857143, Few: [17]int64{90, 0, 0, 40, 0, 0, 1}},
	},
	{
		movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: 24},
		"6d01 0d234ccf9bd902ab 00000000027bc86b 14 5a00000000000000000028000000000000000001",
		movingwindow.State{At: 946684801234567851, Width: 41666667, Many: []int64{0: 90, 10: 40, 19: 1}},
	},
}

func TestStatesInMidStream(t *testing.T) {
	for _, g := range golden {
		p, err := movingwindow.New(g.o)
		require.NoError(t, err)
		var state []byte
		for i, cost := range []int64{2, 1, 40, 90} {
			state, _, err = p.Step(nil, state, y2k.Add(time.Duration(i)*411_522_617), cost)
			require.NoError(t, err)
		}
		s, err := movingwindow.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.is, s)
		require.Equal(t, unhex(t, g.state), state, "%v: %x", p, state)
		require.Equal(t, state, movingwindow.AppendState(nil, s))
		require.Equal(t, append([]byte("dst"), state...), movingwindow.AppendState([]byte("dst"), s))
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestWhatIsNoStateIsRefused(t *testing.T) {
	manyZeros := strings.Repeat("00", 1024)
	for b, want := range map[string]error{
		"6d":   algo.ErrState,
		"6d01": algo.ErrState,
		"6d00 0000000000000005 0000000000000007 01 01": algo.ErrState,
		"6701 0000000000000005 0000000000000007 01 01": algo.ErrState, // another algorithm's
		"6d02": algo.ErrStateVersion,
		"6d02 0000000000000005 0000000000000007 01 01": algo.ErrStateVersion,
		"6dff 00": algo.ErrStateVersion,

		"6d01 00000000000000":                             algo.ErrState, // cut short
		"6d01 0000000000000005":                           algo.ErrState,
		"6d01 0000000000000005 0000000000000007":          algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01":       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 80":    algo.ErrState,
		"6d01 0000000000000005 0000000000000007 02 01":    algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 01 00": algo.ErrState, // and something after it
		"6d01 0000000000000005 0000000000000007 01 01 01": algo.ErrState,

		"6d01 0000000000000005 0000000000000007 00":                            algo.ErrState, // nothing used is no bytes
		"6d01 0000000000000005 0000000000000007 01 00":                         algo.ErrState,
		"6d01 0000000000000005 0000000000000007 02 0100":                       algo.ErrState, // the oldest count is not 0
		"6d01 4000000000000000 0000000000000007 01 01":                         algo.ErrState, // after the end of time
		"6d01 ffffffffffffffff 0000000000000007 01 01":                         algo.ErrState,
		"6d01 0000000000000005 0000000000000000 01 01":                         algo.ErrState, // no width
		"6d01 0000000000000005 4000000000000001 01 01":                         algo.ErrState, // a width of 2^62+1
		"6d01 0000000000000005 0000000000000007 01 80808080808080808001":       algo.ErrState, // 2^63 used
		"6d01 0000000000000005 0000000000000007 02 ffffffffffffffff7f 01":      algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 808080808080808040":         nil,           // 2^62
		"6d01 0000000000000005 0000000000000007 01 818080808080808040":         algo.ErrState, // and 1
		"6d01 0000000000000005 0000000000000007 8100 01":                       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 8100":                       algo.ErrState,
		"6d01 0000000000000005 0000000000000007 01 ffffffffffffffffff02":       algo.ErrState, // beyond 64 bits
		"6d01 0000000000000005 0000000000000007 8008" + manyZeros[2:] + "01":   nil,           // 1024 counts
		"6d01 0000000000000005 0000000000000007 8108" + manyZeros + "01":       nil,           // 1025
		"6d01 0000000000000005 0000000000000007 8208" + manyZeros + "0001":     algo.ErrState, // 1026
		"6d01 0000000000000005 0000000000000007 ffffffffffffffffff01 01":       algo.ErrState, // 2^64-1 counts
		"6d01 0000000000000005 0000000000000007 80808080808080808080808001 01": algo.ErrState,
	} {
		s, err := movingwindow.ParseState(unhex(t, b))
		require.ErrorIs(t, err, want, "%s", b)
		require.Equal(t, want != nil, s.Width == 0)
		if want != nil {
			require.Zero(t, s)
		}
	}
	for b, want := range map[string]movingwindow.State{
		"": {},
		"6d01 0000000000000005 0000000000000007 01 01":                                          {At: 5, Width: 7, Few: [17]int64{1}},
		"6d01 0000000000000005 0000000000000007 03 000001":                                      {At: 5, Width: 7, Few: [17]int64{2: 1}},
		"6d01 3fffffffffffffff 4000000000000000 02 808080808080808040 ffffffffffffffff3f":       {At: algo.MaxInstant, Width: 1 << 62, Few: [17]int64{algo.MaxCount, algo.MaxCount - 1}},
		"6d01 0000000000000005 0000000000000007 12 0000000000000000000000000000000000 05":       {At: 5, Width: 7, Many: []int64{17: 5}},
		"6d01 0000000000000005 0000000000000007 12 0000000000000000000000000000000000 feffff7f": {At: 5, Width: 7, Many: []int64{17: 1<<28 - 2}},
	} {
		s, err := movingwindow.ParseState(unhex(t, b))
		require.NoError(t, err, b)
		require.Equal(t, want, s)
		require.Equal(t, unhex(t, b), movingwindow.AppendState([]byte{}, s))
	}
}

// A State made by hand is taken for the nearest that a step could have returned.
func TestStatesMadeByHand(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(10, 12), Slots: 3}
	few := func(counts ...int64) (f [17]int64) {
		copy(f[:], counts)
		return f
	}
	type state = movingwindow.State
	for _, c := range []struct{ odd, same state }{
		{state{At: 5, Few: few(1)}, state{}},
		{state{At: 5, Width: -4, Few: few(1)}, state{}},
		{state{At: 5, Width: 4}, state{}},
		{state{At: 5, Width: 4, Few: few(-1, -1)}, state{}},
		{state{At: 5, Width: 4, Few: few(-1, 2)}, state{At: 5, Width: 4, Few: few(0, 2)}},
		{state{At: 5, Width: 4, Few: few(math.MaxInt64, math.MaxInt64)}, state{At: 5, Width: 4, Few: few(algo.MaxCount, algo.MaxCount-1)}},
		{state{At: 5, Width: 4, Few: few(1, math.MaxInt64, 1)}, state{At: 5, Width: 4, Few: few(1, algo.MaxCount, 1)}},
		{state{At: 5, Width: 4, Few: few(math.MinInt64, math.MinInt64, 1)}, state{At: 5, Width: 4, Few: few(0, 0, 1)}},
		{state{At: -5, Width: 4, Few: few(3)}, state{Width: 4, Few: few(3)}},
		{state{At: math.MaxInt64, Width: 4, Few: few(3)}, state{At: algo.MaxInstant, Width: 4, Few: few(3)}},
		{state{At: 5, Width: math.MaxInt64, Few: few(3)}, state{At: 5, Width: 1 << 62, Few: few(3)}},
		{state{At: 5, Width: 4, Many: []int64{}}, state{}},
		{state{At: 5, Width: 4, Many: []int64{2, 1, 0}}, state{At: 5, Width: 4, Few: few(2, 1)}},
		{state{At: 5, Width: 4, Few: few(9), Many: []int64{2}}, state{At: 5, Width: 4, Few: few(2)}},
		{state{At: 5, Width: 4, Few: few(9), Many: []int64{2: -7}}, state{}},
		{state{At: 5, Width: 4, Many: []int64{2, 2000: 3}}, state{At: 5, Width: 4, Few: few(2)}},
	} {
		require.Equal(t, movingwindow.AppendState(nil, c.same), movingwindow.AppendState(nil, c.odd), "%+v", c.odd)
		for v := step; v <= charge; v++ {
			for _, at := range []int64{0, 5, 8, 1000} {
				next, r := call(c.odd, v, at, o, 1)
				want, wantResult := call(c.same, v, at, o, 1)
				require.Equal(t, wantResult, r, "%+v", c.odd)
				if r.Paid == 0 {
					want = c.odd
				}
				require.Equal(t, want, next, "%+v", c.odd)
			}
		}
	}
}

// States may share a slice of counts, so no verb writes into it.
func TestCountsBeyondTheInlineOnesAreCopied(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(1000, 40*time.Second), Slots: 40}
	var s movingwindow.State
	for i := range 30 {
		s, _ = movingwindow.Step(s, y2k.Add(time.Duration(i)*time.Second), o)
	}
	require.Len(t, s.Many, 30)
	before := append([]int64{}, s.Many...)
	for v := step; v <= charge; v++ {
		for _, after := range []time.Duration{29, 30, 50, 69, 70, 100} {
			next, _ := verbs[v](s, y2k.Add(after*time.Second), o)
			require.Equal(t, before, s.Many)
			if v != peek && len(next.Many) > 0 && &next.Many[0] == &s.Many[0] {
				require.Equal(t, s, next, "a changed state shares its counts")
			}
		}
	}
}

// What is between the last slot in use and the oldest that counts takes no bytes.
func TestAQuietKeyIsSmall(t *testing.T) {
	p, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(1000, time.Minute), Slots: movingwindow.MaxSlots})
	require.NoError(t, err)
	state, _, err := p.Step(nil, nil, y2k, 1)
	require.NoError(t, err)
	require.Len(t, state, 2+8+8+1+1)
}

// The package comment tells these sizes.
func TestAStateIsAsLargeAsItsSlots(t *testing.T) {
	for _, c := range []struct{ slots, least, most int }{{1, 20, 23}, {12, 20, 45}} {
		o := movingwindow.Options{Limit: algo.Per(1<<20, time.Duration(c.slots)*time.Second), Slots: c.slots, Cost: 1<<14 - 1}
		var s movingwindow.State
		for i := range c.slots + 1 {
			s, _ = movingwindow.Step(s, y2k.Add(time.Duration(i)*time.Second), o)
		}
		require.Len(t, movingwindow.AppendState(nil, s), c.most)
		o.Cost = 127
		s, _ = movingwindow.Step(movingwindow.State{}, y2k, o)
		require.Len(t, movingwindow.AppendState(nil, s), c.least)
	}
}

func TestUpToSixteenSlotsAllocateNothing(t *testing.T) {
	for _, slots := range []int{1, 12, 16} {
		o := movingwindow.Options{Limit: algo.Per(100, time.Minute), Slots: slots}
		var s movingwindow.State
		now := y2k
		require.Zero(t, testing.AllocsPerRun(100, func() {
			now = now.Add(time.Second)
			s, _ = movingwindow.Step(s, now, o)
			s, _ = movingwindow.Refund(s, now, o)
			s, _ = movingwindow.Charge(s, now, o)
		}))
	}
}
