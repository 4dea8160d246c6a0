package fixedwindow_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

var y2k = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// golden are states in mid-stream: after 2, 1, 40 and 90 units, 411.522617ms apart.
// Stores hold such bytes, so they are to be read like this for ever.
var golden = []struct {
	o     fixedwindow.Options
	state string
	is    fixedwindow.State
}{
	{
		fixedwindow.Options{Limit: algo.Per(1000, time.Second)},
		"6601 0d234ccf9bd902ab 5a",
		fixedwindow.State{Start: 946684801234567851, Used: 90},
	},
	{
		fixedwindow.Options{Limit: algo.Per(1000, time.Minute)},
		"6601 0d234ccf52430000 8501",
		fixedwindow.State{Start: 946684800000000000, Used: 133},
	},
	{
		fixedwindow.Options{Limit: algo.Per(1000, time.Second), Align: fixedwindow.AlignClock, Offset: 500 * time.Millisecond},
		"6601 0d234ccf8351ac72 8201",
		fixedwindow.State{Start: 946684800823045234, Used: 130},
	},
}

func TestStatesInMidStream(t *testing.T) {
	for _, g := range golden {
		p, err := fixedwindow.New(g.o)
		require.NoError(t, err)
		var state []byte
		for i, cost := range []int64{2, 1, 40, 90} {
			state, _, err = p.Step(nil, state, y2k.Add(time.Duration(i)*411_522_617), cost)
			require.NoError(t, err)
		}
		require.Equal(t, unhex(t, g.state), state, "%v: %x", p, state)
		s, err := fixedwindow.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.is, s)
		require.Equal(t, state, fixedwindow.AppendState(nil, s))
		require.Equal(t, append([]byte("dst"), state...), fixedwindow.AppendState([]byte("dst"), s))
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestWhatIsNoStateIsRefused(t *testing.T) {
	for b, want := range map[string]error{
		"66":                       algo.ErrState,
		"6601":                     algo.ErrState,
		"6600 0000000000000005 01": algo.ErrState,
		"6701 0000000000000005 01": algo.ErrState, // another algorithm's
		"6602":                     algo.ErrStateVersion,
		"6602 0000000000000005 01": algo.ErrStateVersion,
		"66ff 00":                  algo.ErrStateVersion,

		"6601 00000000000000":         algo.ErrState, // cut short
		"6601 0000000000000005":       algo.ErrState,
		"6601 0000000000000005 80":    algo.ErrState,
		"6601 0000000000000005 01 00": algo.ErrState, // and something after it

		"6601 0000000000000005 00":                     algo.ErrState, // nothing used is no bytes
		"6601 4000000000000000 01":                     algo.ErrState, // after the end of time
		"6601 ffffffffffffffff 01":                     algo.ErrState,
		"6601 0000000000000005 818080808080808040":     algo.ErrState, // 2^62+1 used
		"6601 0000000000000005 ffffffffffffffffff01":   algo.ErrState,
		"6601 0000000000000005 8100":                   algo.ErrState, // longer than need be
		"6601 0000000000000005 ffffffffffffffffff02":   algo.ErrState, // beyond 64 bits
		"6601 0000000000000005 8080808080808080808001": algo.ErrState,
	} {
		s, err := fixedwindow.ParseState(unhex(t, b))
		require.ErrorIs(t, err, want, "%s", b)
		require.Zero(t, s)
	}
	for b, want := range map[string]fixedwindow.State{
		"":                         {},
		"6601 0000000000000000 01": {Used: 1},
		"6601 3fffffffffffffff 808080808080808040": {Start: algo.MaxInstant, Used: algo.MaxCount},
	} {
		s, err := fixedwindow.ParseState(unhex(t, b))
		require.NoError(t, err)
		require.Equal(t, want, s)
		require.Equal(t, unhex(t, b), fixedwindow.AppendState([]byte{}, s))
	}
}

// A State made by hand is taken for the nearest that a step could have returned.
func TestStatesMadeByHand(t *testing.T) {
	o := fixedwindow.Options{Limit: algo.Per(10, time.Second)}
	for _, c := range []struct{ odd, same fixedwindow.State }{
		{fixedwindow.State{Start: 5}, fixedwindow.State{}},
		{fixedwindow.State{Start: math.MaxInt64, Used: -1}, fixedwindow.State{}},
		{fixedwindow.State{Start: 5, Used: math.MaxInt64}, fixedwindow.State{Start: 5, Used: algo.MaxCount}},
		{fixedwindow.State{Start: math.MinInt64, Used: 3}, fixedwindow.State{Used: 3}},
		{fixedwindow.State{Start: math.MaxInt64, Used: 3}, fixedwindow.State{Start: algo.MaxInstant, Used: 3}},
	} {
		require.Equal(t, fixedwindow.AppendState(nil, c.same), fixedwindow.AppendState(nil, c.odd))
		for v := step; v <= charge; v++ {
			next, r := call(c.odd, v, 1000, o, 1)
			want, wantResult := call(c.same, v, 1000, o, 1)
			require.Equal(t, wantResult, r, "%+v", c.odd)
			if r.Paid == 0 {
				want = c.odd
			}
			require.Equal(t, want, next, "%+v", c.odd)
		}
	}
}

// A window that would end after the end of time does not end.
func TestTheLastWindowDoesNotEnd(t *testing.T) {
	for _, o := range []fixedwindow.Options{
		{Limit: algo.Per(1, math.MaxInt64)},
		{Limit: algo.Per(1, math.MaxInt64), Align: fixedwindow.AlignClock, Offset: -1},
		{Limit: algo.Per(1, 1<<62), Align: fixedwindow.AlignClock, Offset: 1 << 61},
	} {
		s, r := call(fixedwindow.State{}, step, algo.MaxInstant, o, 1)
		require.True(t, r.Allowed)
		require.Positive(t, r.ResetAfter)
		_, r = fixedwindow.Step(s, time.Unix(math.MaxInt64, 0), o)
		require.False(t, r.Allowed, "%+v: %+v", o, r)
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	for _, align := range []fixedwindow.Align{fixedwindow.AlignFirst, fixedwindow.AlignClock} {
		o := fixedwindow.Options{Limit: algo.Per(100, time.Minute), Align: align}
		var s fixedwindow.State
		now := y2k
		require.Zero(t, testing.AllocsPerRun(100, func() {
			now = now.Add(time.Second)
			s, _ = fixedwindow.Step(s, now, o)
			s, _ = fixedwindow.Refund(s, now, o)
			s, _ = fixedwindow.Charge(s, now, o)
		}))
	}
}
