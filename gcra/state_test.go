package gcra_test

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

var y2k = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// golden are states in mid-stream: after 2, 1, 1 and 2 units, 411.522617ms apart.
// Stores hold such bytes, so they are to be read like this for ever.
var golden = []struct {
	o     gcra.Options
	state string
	is    gcra.State
}{
	{
		gcra.Options{Limit: algo.Per(3, time.Second)},
		"67 01 14 0d234ccf9bd902ab 02 11a91fff 3b9aca00",
		gcra.State{At: 946684801234567851, Used: 2, Part: 296296447, Period: time.Second},
	},
	{
		gcra.Options{Limit: algo.Per(100, time.Minute)},
		"67 01 15 0d234ccf9bd902ab 03 0d2a3cfd34 0df8475800",
		gcra.State{At: 946684801234567851, Used: 3, Part: 56543214900, Period: time.Minute},
	},
	{
		gcra.Options{Limit: algo.Per(5, time.Hour), Burst: 20},
		"67 01 16 0d234ccf9bd902ab 05 0344c0ca92a9 034630b8a000",
		gcra.State{At: 946684801234567851, Used: 5, Part: 3593827160745, Period: time.Hour},
	},
	{
		gcra.Options{Limit: algo.Per(2, 7)},
		"67 01 11 0d234ccf9bd902ab 02 00 07",
		gcra.State{At: 946684801234567851, Used: 2, Part: 0, Period: 7},
	},
	{
		gcra.Options{Limit: algo.Per(1, 1<<56), Burst: 60},
		"67 01 18 0d234ccf9bd902ab 05 00ffffffb669fd55 0100000000000000",
		gcra.State{At: 946684801234567851, Used: 5, Part: 1<<56 - 1234567851, Period: 1 << 56},
	},
}

func TestStatesInMidStream(t *testing.T) {
	for _, g := range golden {
		p, err := gcra.New(g.o)
		require.NoError(t, err)
		var state []byte
		for i, cost := range []int64{2, 1, 1, 2} {
			now := y2k.Add(time.Duration(i) * 411_522_617)
			state, _, err = p.Step(nil, state, now, cost)
			require.NoError(t, err)
		}
		require.Equal(t, unhex(t, g.state), state, "%v: %x", p, state)
		s, err := gcra.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.is, s, p)
		require.Equal(t, state, gcra.AppendState(nil, s))
	}
}

// Sizes are what the package's documentation says.
func TestStatesAreSmall(t *testing.T) {
	least, most := math.MaxInt, 0
	for _, spec := range []string{"10/s", "100/m", "1000/h", "100000/h", "1000/d"} {
		limit, err := algo.ParseLimit(spec)
		require.NoError(t, err)
		for _, cost := range []int64{1, limit.Count} {
			s, _ := gcra.Step(gcra.State{}, y2k, gcra.Options{Limit: limit, Cost: cost})
			s, _ = gcra.Charge(s, y2k.Add(time.Second/3), gcra.Options{Limit: limit})
			size := len(gcra.AppendState(nil, s))
			least, most = min(least, size), max(most, size)
		}
	}
	require.Equal(t, []int{20, 26}, []int{least, most})
}

// Policies are compared by what they are written as.
func TestPoliciesThatAreAlike(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(100, time.Minute)}
	one, err := gcra.New(o)
	require.NoError(t, err)
	o.Burst = 100
	same, err := gcra.New(o)
	require.NoError(t, err)
	require.Equal(t, one.String(), same.String())
}

func TestAKeyNeverSeenIsNoBytes(t *testing.T) {
	require.Empty(t, gcra.AppendState(nil, gcra.State{}))
	s, err := gcra.ParseState([]byte{})
	require.NoError(t, err)
	require.Zero(t, s)
}

func TestBytesThatAreNoState(t *testing.T) {
	state := "67 01 11 0d234ccf43130000 02 01 03" // two units and a third, under 1/3ns
	_, err := gcra.ParseState(unhex(t, state))
	require.NoError(t, err)
	for what, bytes := range map[string]string{
		"another algorithm":          "74 01 11 0d234ccf43130000 02 01 03",
		"version 0":                  "67 00 11 0d234ccf43130000 02 01 03",
		"a byte":                     "67",
		"a header":                   "67 01 11 0d234ccf43130000",
		"a field missing":            "67 01 11 0d234ccf43130000 02 01",
		"a byte too many":            "67 01 11 0d234ccf43130000 02 01 03 00",
		"Used in more than it needs": "67 01 21 0d234ccf43130000 0002 01 03",
		"Period likewise":            "67 01 12 0d234ccf43130000 02 0001 0003",
		"Used in nine bytes":         "67 01 91 0d234ccf43130000 000000000000000002 01 03",
		"Period in nine bytes":       "67 01 19 0d234ccf43130000 02 000000000000000001 000000000000000003",
		"no period":                  "67 01 10 0d234ccf43130000 02",
		"a period of 0":              "67 01 11 0d234ccf43130000 02 00 00",
		"a negative period":          "67 01 18 0d234ccf43130000 02 0000000000000001 ffffffffffffffff",
		"a part of the whole":        "67 01 11 0d234ccf43130000 02 03 03",
		"more than 2^62 used":        "67 01 81 0d234ccf43130000 4000000000000001 01 03",
		"a negative use":             "67 01 81 0d234ccf43130000 ffffffffffffffff 01 03",
		"a time after 2116":          "67 01 11 4000000000000000 02 01 03",
		"a time before 1970":         "67 01 11 ffffffffffffffff 02 01 03",
	} {
		_, err := gcra.ParseState(unhex(t, bytes))
		require.Equal(t, algo.ErrState, err, what)
	}
	for _, newer := range []string{"67 02", "67 ff 01 02 03", strings.Replace(state, "01", "02", 1)} {
		_, err := gcra.ParseState(unhex(t, newer))
		require.Equal(t, algo.ErrStateVersion, err, newer)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestNoStepReturnsTheseStates(t *testing.T) {
	for s, nearest := range map[gcra.State]gcra.State{
		{Used: 3}:                                  {Used: 3, Period: 1},
		{At: -5, Used: 3, Part: 1, Period: 2}:      {Used: 3, Part: 1, Period: 2},
		{At: 9, Used: -1, Part: -1, Period: 2}:     {At: 9, Period: 2},
		{At: 9, Used: 3, Part: 2, Period: 2}:       {At: 9, Used: 3, Part: 1, Period: 2},
		{At: 9, Used: 3, Part: 1, Period: -2}:      {At: 9, Used: 3, Period: 1},
		{math.MaxInt64, math.MaxInt64, 1, 2}:       {algo.MaxInstant, algo.MaxCount, 1, 2},
		{math.MinInt64, math.MinInt64, 1, 2}:       {0, 0, 1, 2},
		{At: 9, Used: 3, Part: 1, Period: 2}:       {At: 9, Used: 3, Part: 1, Period: 2},
		{At: 9, Used: 0, Part: 0, Period: 1 << 62}: {At: 9, Used: 0, Part: 0, Period: 1 << 62},
	} {
		got, err := gcra.ParseState(gcra.AppendState(nil, s))
		require.NoError(t, err)
		require.Equal(t, nearest, got, "%+v", s)
	}
}

// Whole units stay exactly what they are under any other limit and back.
func TestAChangedLimitKeepsWholeUnits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range rounds(20000) {
		from, to := anyOptions(random), anyOptions(random)
		from.Cost = upTo(random, from.Limit.Count)
		at := time.Unix(0, upTo(random, algo.MaxInstant))
		s, before := gcra.Step(gcra.State{}, at, from)
		if !before.Allowed {
			continue
		}
		after := gcra.Peek(s, at, to)
		require.Equal(t, before.Limit-before.Remaining, after.Limit-after.Remaining, "%+v to %+v", from, to)

		to.Cost = 1
		charged, _ := gcra.Charge(s, at, to)
		to.Cost = 1
		returned, _ := gcra.Refund(charged, at, to)
		from.Cost = 1
		require.Equal(t, gcra.Peek(s, at, from), gcra.Peek(returned, at, from), "%+v to %+v and back", from, to)
	}
}

// A part of a unit is rounded up, by less than one part of the new period.
func TestAChangedPeriodRoundsUp(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(1, 3*time.Nanosecond), Burst: 5, Cost: 2}
	s, _ := gcra.Step(gcra.State{}, y2k, o)
	s, _ = gcra.Step(s, y2k.Add(1), o)
	require.Equal(t, gcra.State{At: y2k.UnixNano() + 1, Used: 3, Part: 2, Period: 3}, s)

	for period, want := range map[time.Duration]gcra.State{ // 3 and 2/3, and one more
		1:  {Used: 5, Part: 0},
		2:  {Used: 5, Part: 0},
		3:  {Used: 4, Part: 2},
		4:  {Used: 4, Part: 3},
		6:  {Used: 4, Part: 4},
		10: {Used: 4, Part: 7},
	} {
		o := gcra.Options{Limit: algo.Per(1, period), Burst: 10}
		got, r := gcra.Step(s, y2k.Add(1), o)
		want.At, want.Period = s.At, period
		require.Equal(t, want, got, period)
		require.Equal(t, int64(5), r.Remaining, period)
	}
}
