package tokenbucket_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

var y2k = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// golden are states in mid-stream: after 2, 1, 1 and 2 tokens, 411.522617ms apart.
// Stores hold such bytes, so they are to be read like this for ever.
var golden = []struct {
	o     tokenbucket.Options
	state string
	is    tokenbucket.State
}{
	{
		tokenbucket.Options{Limit: algo.Per(3, time.Second)},
		"7401 0d234ccf9bd902ab 81d4c6cf02 03",
		tokenbucket.State{Used: 3, At: 946684801234567851, Part: 703703553},
	},
	{
		tokenbucket.Options{Limit: algo.Per(100, time.Minute), Burst: 300},
		"7401 0d234ccf9bd902ab ccb5a9f00c 04",
		tokenbucket.State{Used: 4, At: 946684801234567851, Part: 3456785100},
	},
	{
		tokenbucket.Options{Limit: algo.Per(3, time.Second), Burst: 5, Refill: tokenbucket.Interval},
		"7401 0d234ccf9bd902ab abf1ec6f 03",
		tokenbucket.State{Used: 3, At: 946684801234567851, Part: 234567851},
	},
}

func TestStatesInMidStream(t *testing.T) {
	for _, g := range golden {
		p, err := tokenbucket.New(g.o)
		require.NoError(t, err)
		var state []byte
		for i, cost := range []int64{2, 1, 1, 2} {
			state, _, err = p.Step(nil, state, y2k.Add(time.Duration(i)*411_522_617), cost)
			require.NoError(t, err)
		}
		require.Equal(t, unhex(t, g.state), state, "%v: %x", p, state)
		s, err := tokenbucket.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.is, s)
		require.Equal(t, state, tokenbucket.AppendState(nil, s))
		require.Equal(t, append([]byte("dst"), state...), tokenbucket.AppendState([]byte("dst"), s))
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
		"74":                          algo.ErrState,
		"7401":                        algo.ErrState,
		"7400 0000000000000005 00 01": algo.ErrState,
		"6701 0000000000000005 00 01": algo.ErrState, // another algorithm's
		"7402":                        algo.ErrStateVersion,
		"7402 0000000000000005 00 01": algo.ErrStateVersion,
		"74ff 00":                     algo.ErrStateVersion,

		"7401 00000000000000":            algo.ErrState, // cut short
		"7401 0000000000000005":          algo.ErrState,
		"7401 0000000000000005 00":       algo.ErrState,
		"7401 0000000000000005 80":       algo.ErrState,
		"7401 0000000000000005 00 80":    algo.ErrState,
		"7401 0000000000000005 00 01 00": algo.ErrState, // and something after it

		"7401 0000000000000005 00 00":                     algo.ErrState, // nothing used is no bytes
		"7401 4000000000000000 00 01":                     algo.ErrState, // after the end of time
		"7401 ffffffffffffffff 00 01":                     algo.ErrState,
		"7401 0000000000000005 00 818080808080808040":     algo.ErrState, // 2^62+1 used
		"7401 0000000000000005 80808080808080808001 01":   algo.ErrState, // a part of 2^63
		"7401 0000000000000005 8000 01":                   algo.ErrState, // longer than need be
		"7401 0000000000000005 00 8100":                   algo.ErrState,
		"7401 0000000000000005 ffffffffffffffffff02 01":   algo.ErrState, // beyond 64 bits
		"7401 0000000000000005 00 80808080808080808080":   algo.ErrState,
		"7401 0000000000000005 00 8080808080808080808001": algo.ErrState,
	} {
		s, err := tokenbucket.ParseState(unhex(t, b))
		require.ErrorIs(t, err, want, "%s", b)
		require.Zero(t, s)
	}
	for b, want := range map[string]tokenbucket.State{
		"":                            {},
		"7401 0000000000000005 00 01": {Used: 1, At: 5},
		"7401 3fffffffffffffff ffffffffffffffff7f 808080808080808040": {Used: algo.MaxCount, At: algo.MaxInstant, Part: math.MaxInt64},
	} {
		s, err := tokenbucket.ParseState(unhex(t, b))
		require.NoError(t, err)
		require.Equal(t, want, s)
		require.Equal(t, unhex(t, b), append([]byte{}, tokenbucket.AppendState(nil, s)...))
	}
}

// A State made by hand is taken for the nearest that a step could have returned.
func TestStatesMadeByHand(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(10, time.Second)}
	for _, c := range []struct{ odd, same tokenbucket.State }{
		{tokenbucket.State{At: 5, Part: 7}, tokenbucket.State{}},
		{tokenbucket.State{Used: -1, At: 5, Part: 7}, tokenbucket.State{}},
		{tokenbucket.State{Used: math.MaxInt64, At: 5}, tokenbucket.State{Used: algo.MaxCount, At: 5}},
		{tokenbucket.State{Used: 3, At: -5}, tokenbucket.State{Used: 3}},
		{tokenbucket.State{Used: 3, At: math.MaxInt64}, tokenbucket.State{Used: 3, At: algo.MaxInstant}},
		{tokenbucket.State{Used: 3, At: 5, Part: math.MinInt64}, tokenbucket.State{Used: 3, At: 5}},
	} {
		require.Equal(t, tokenbucket.AppendState(nil, c.same), tokenbucket.AppendState(nil, c.odd))
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
	// More than a whole refill cannot have accrued without coming back.
	r := tokenbucket.Peek(tokenbucket.State{Used: 3, At: 5, Part: math.MaxInt64}, time.Unix(0, 5), o)
	require.EqualValues(t, 7, r.Remaining)
	require.EqualValues(t, 1, r.NextRefill)
}

func TestThePartOfARefillOutlivesAChangedLimit(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(2, time.Second)}
	s, _ := tokenbucket.Step(tokenbucket.State{}, y2k, o)
	s, _ = tokenbucket.Step(s, y2k.Add(400*time.Millisecond), o) // 0.8 of a token

	faster := tokenbucket.Options{Limit: algo.Per(2000, time.Second)}
	r := tokenbucket.Peek(s, y2k.Add(400*time.Millisecond), faster)
	require.EqualValues(t, 1998, r.Remaining, "the time before the change counts at the new rate")
	require.Equal(t, 100*time.Microsecond, r.NextRefill)

	shorter := tokenbucket.Options{Limit: algo.Per(2, time.Millisecond)}
	r = tokenbucket.Peek(s, y2k.Add(400*time.Millisecond), shorter)
	require.Zero(t, r.Remaining, "more than a refill of the new limit had accrued")
	require.Equal(t, time.Nanosecond, r.NextRefill)
}
