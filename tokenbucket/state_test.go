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
		"7401 14 0d234ccf9bd902ab 03 29f1aa01 3b9aca00",
		tokenbucket.State{Used: 3, At: 946684801234567851, Part: 703703553, Period: time.Second},
	},
	{
		tokenbucket.Options{Limit: algo.Per(100, time.Minute), Burst: 300},
		"7401 15 0d234ccf9bd902ab 04 00ce0a5acc 0df8475800",
		tokenbucket.State{Used: 4, At: 946684801234567851, Part: 3456785100, Period: time.Minute},
	},
	{
		tokenbucket.Options{Limit: algo.Per(3, time.Second), Burst: 5, Refill: tokenbucket.Interval},
		"7401 14 0d234ccf9bd902ab 03 0dfb38ab 3b9aca00",
		tokenbucket.State{Used: 3, At: 946684801234567851, Part: 234567851, Period: time.Second},
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
		"74":                                algo.ErrState,
		"7401":                              algo.ErrState,
		"7400 11 0000000000000005 02 01 03": algo.ErrState,
		"6701 11 0000000000000005 02 01 03": algo.ErrState, // another algorithm's
		"7402":                              algo.ErrStateVersion,
		"7402 11 0000000000000005 02 01 03": algo.ErrStateVersion,
		"74ff 00":                           algo.ErrStateVersion,

		"7401 11":                              algo.ErrState, // cut short
		"7401 11 0000000000000005":             algo.ErrState,
		"7401 11 0000000000000005 02 01":       algo.ErrState,
		"7401 11 0000000000000005 02 01 03 00": algo.ErrState, // and something after it

		"7401 01 0000000000000005 01 03":                                    algo.ErrState, // nothing used is no bytes
		"7401 11 0000000000000005 00 01 03":                                 algo.ErrState,
		"7401 11 4000000000000000 02 01 03":                                 algo.ErrState, // after the end of time
		"7401 11 ffffffffffffffff 02 01 03":                                 algo.ErrState,
		"7401 81 0000000000000005 4000000000000001 01 03":                   algo.ErrState, // 2^62+1 used
		"7401 81 0000000000000005 ffffffffffffffff 01 03":                   algo.ErrState,
		"7401 11 0000000000000005 02 03 03":                                 algo.ErrState, // a part of the whole
		"7401 10 0000000000000005 02":                                       algo.ErrState, // no period
		"7401 11 0000000000000005 02 00 00":                                 algo.ErrState,
		"7401 18 0000000000000005 02 0000000000000001 ffffffffffffffff":     algo.ErrState,
		"7401 21 0000000000000005 0002 01 03":                               algo.ErrState, // wider than need be
		"7401 12 0000000000000005 02 0001 0003":                             algo.ErrState,
		"7401 91 0000000000000005 000000000000000002 01 03":                 algo.ErrState,
		"7401 19 0000000000000005 02 000000000000000001 000000000000000003": algo.ErrState,
	} {
		s, err := tokenbucket.ParseState(unhex(t, b))
		require.ErrorIs(t, err, want, "%s", b)
		require.Zero(t, s)
	}
	for b, want := range map[string]tokenbucket.State{
		"":                                  {},
		"7401 11 0000000000000005 02 01 03": {Used: 2, At: 5, Part: 1, Period: 3},
		"7401 88 3fffffffffffffff 4000000000000000 7ffffffffffffffe 7fffffffffffffff": {Used: algo.MaxCount, At: algo.MaxInstant, Part: math.MaxInt64 - 1, Period: math.MaxInt64},
	} {
		s, err := tokenbucket.ParseState(unhex(t, b))
		require.NoError(t, err)
		require.Equal(t, want, s)
		require.Equal(t, unhex(t, b), append([]byte{}, tokenbucket.AppendState(nil, s)...))
	}
}

// Sizes are what the package's documentation says.
func TestStatesAreSmall(t *testing.T) {
	sizes := map[int]bool{}
	for _, spec := range []string{"10/s", "100/m", "1000/h", "100000/h", "1000/d"} {
		limit, err := algo.ParseLimit(spec)
		require.NoError(t, err)
		for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
			for _, cost := range []int64{1, limit.Count} {
				o := tokenbucket.Options{Limit: limit, Refill: refill}
				s, _ := call(tokenbucket.State{}, step, y2k.UnixNano(), o, cost)
				s, _ = call(s, charge, y2k.UnixNano()+333_333_333, o, 1)
				sizes[len(tokenbucket.AppendState(nil, s))] = true
			}
		}
	}
	for size := range sizes {
		require.GreaterOrEqual(t, size, 20)
		require.LessOrEqual(t, size, 26)
	}
	require.True(t, sizes[20] && sizes[26], "%v", sizes)
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
		{tokenbucket.State{Used: 3, At: 5, Part: math.MinInt64, Period: 7}, tokenbucket.State{Used: 3, At: 5, Period: 7}},
		{tokenbucket.State{Used: 3, At: 5, Part: 7}, tokenbucket.State{Used: 3, At: 5, Period: 1}},
		{tokenbucket.State{Used: 3, At: 5, Part: 7, Period: -1}, tokenbucket.State{Used: 3, At: 5, Period: 1}},
		{tokenbucket.State{Used: 3, At: 5, Part: 7, Period: 7}, tokenbucket.State{Used: 3, At: 5, Part: 6, Period: 7}},
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
	r := tokenbucket.Peek(tokenbucket.State{Used: 3, At: 5, Part: math.MaxInt64, Period: time.Second}, time.Unix(0, 5), o)
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
	require.Zero(t, r.Remaining)
	require.Equal(t, 100*time.Microsecond, r.NextRefill, "the same fraction of a token")
}
