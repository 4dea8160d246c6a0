package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 1, 2}, []algorithmtest.Golden[gcra.State, gcra.Options]{
		{
			Options: gcra.Options{Limit: algo.Per(3, time.Second)},
			Hex:     "67 01 14 0d234ccf9bd902ab 02 11a91fff 3b9aca00",
			State:   gcra.State{At: 946684801234567851, Used: 2, Part: 296296447, Period: time.Second},
		},
		{
			Options: gcra.Options{Limit: algo.Per(100, time.Minute)},
			Hex:     "67 01 15 0d234ccf9bd902ab 03 0d2a3cfd34 0df8475800",
			State:   gcra.State{At: 946684801234567851, Used: 3, Part: 56543214900, Period: time.Minute},
		},
		{
			Options: gcra.Options{Limit: algo.Per(5, time.Hour), Burst: 20},
			Hex:     "67 01 16 0d234ccf9bd902ab 05 0344c0ca92a9 034630b8a000",
			State:   gcra.State{At: 946684801234567851, Used: 5, Part: 3593827160745, Period: time.Hour},
		},
		{
			Options: gcra.Options{Limit: algo.Per(2, 7)},
			Hex:     "67 01 11 0d234ccf9bd902ab 02 00 07",
			State:   gcra.State{At: 946684801234567851, Used: 2, Part: 0, Period: 7},
		},
		{
			Options: gcra.Options{Limit: algo.Per(1, 1<<56), Burst: 60},
			Hex:     "67 01 18 0d234ccf9bd902ab 05 00ffffffb669fd55 0100000000000000",
			State:   gcra.State{At: 946684801234567851, Used: 5, Part: 1<<56 - 1234567851, Period: 1 << 56},
		},
	})
}

func TestStatesHaveTheDocumentedSizes(t *testing.T) {
	least, most := math.MaxInt, 0
	for _, spec := range []string{"10/s", "100/m", "1000/h", "100000/h", "1000/d"} {
		limit, err := algo.ParseLimit(spec)
		require.NoError(t, err)
		for _, cost := range []int64{1, limit.Count} {
			s, _ := gcra.Step(gcra.State{}, start, gcra.Options{Limit: limit, Cost: cost})
			s, _ = gcra.Charge(s, start.Add(time.Second/3), gcra.Options{Limit: limit})
			size := len(gcra.AppendState(nil, s))
			least, most = min(least, size), max(most, size)
		}
	}
	require.Equal(t, []int{20, 26}, []int{least, most})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseStates(t, map[string]gcra.State{
		"":                                         {},
		"67 01 11 0d234ccf43130000 02 01 03":       {At: 946684799745196032, Used: 2, Part: 1, Period: 3},
		"67 01 01 0000000000000000 00 01":          {Period: 1},
		"67 01 12 0000000000000005 ff 0007 0100":   {At: 5, Used: 255, Part: 7, Period: 256},
		"67 01 22 0000000000000005 0100 00ff 0100": {At: 5, Used: 256, Part: 255, Period: 256},
		"67 01 88 3fffffffffffffff 4000000000000000 7ffffffffffffffe 7fffffffffffffff": {At: algo.MaxInstant, Used: algo.MaxCount, Part: math.MaxInt64 - 1, Period: math.MaxInt64},
	})
	kit.ParseErrors(t, map[string]error{
		"74 01 11 0d234ccf43130000 02 01 03":                                 algo.ErrState, // another algorithm
		"67 00 11 0d234ccf43130000 02 01 03":                                 algo.ErrState, // version 0
		"67":                                                                 algo.ErrState, // a byte
		"67 01 11 0d234ccf43130000":                                          algo.ErrState, // a header
		"67 01 11 0d234ccf43130000 02 01":                                    algo.ErrState, // a field missing
		"67 01 11 0d234ccf43130000 02 01 03 00":                              algo.ErrState, // a byte too many
		"67 01 21 0d234ccf43130000 0002 01 03":                               algo.ErrState, // Used is not the shortest form
		"67 01 12 0d234ccf43130000 02 0001 0003":                             algo.ErrState, // Period is not the shortest form
		"67 01 91 0d234ccf43130000 000000000000000002 01 03":                 algo.ErrState, // Used in nine bytes
		"67 01 19 0d234ccf43130000 02 000000000000000001 000000000000000003": algo.ErrState, // Period in nine bytes
		"67 01 10 0d234ccf43130000 02":                                       algo.ErrState, // no period
		"67 01 11 0d234ccf43130000 02 00 00":                                 algo.ErrState, // a period of 0
		"67 01 18 0d234ccf43130000 02 0000000000000001 ffffffffffffffff":     algo.ErrState, // a negative period
		"67 01 11 0d234ccf43130000 02 03 03":                                 algo.ErrState, // a part of the whole
		"67 01 81 0d234ccf43130000 4000000000000001 01 03":                   algo.ErrState, // more than 2^62 used
		"67 01 81 0d234ccf43130000 ffffffffffffffff 01 03":                   algo.ErrState, // a negative use
		"67 01 11 4000000000000000 02 01 03":                                 algo.ErrState, // a time after 2116
		"67 01 11 ffffffffffffffff 02 01 03":                                 algo.ErrState, // a time before 1970
		"67 02":                                                              algo.ErrStateVersion,
		"67 ff 01 02 03":                                                     algo.ErrStateVersion,
		"67 02 11 0d234ccf43130000 02 01 03":                                 algo.ErrStateVersion,
	})
}

func TestStatesAreNormalized(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(10, time.Second)}
	kit.NormalizedStates(t, o, [][2]gcra.State{
		{{Used: 3}, {Used: 3, Period: 1}},
		{{At: -5, Used: 3, Part: 1, Period: 2}, {Used: 3, Part: 1, Period: 2}},
		{{At: 9, Used: -1, Part: -1, Period: 2}, {At: 9, Period: 2}},
		{{At: 9, Used: 3, Part: 2, Period: 2}, {At: 9, Used: 3, Part: 1, Period: 2}},
		{{At: 9, Used: 3, Part: 1, Period: -2}, {At: 9, Used: 3, Period: 1}},
		{{math.MaxInt64, math.MaxInt64, 1, 2}, {algo.MaxInstant, algo.MaxCount, 1, 2}},
		{{math.MinInt64, math.MinInt64, 1, 2}, {0, 0, 1, 2}},
		{{At: 9, Used: 3, Part: 1, Period: 2}, {At: 9, Used: 3, Part: 1, Period: 2}},
		{{At: 9, Used: 0, Part: 0, Period: 1 << 62}, {At: 9, Used: 0, Part: 0, Period: 1 << 62}},
	})
}

// Whole units do not change if the limit changes and changes back.
func TestChangedLimitKeepsWholeUnits(t *testing.T) {
	random := sample.New(3, 4)
	for range algorithmtest.Rounds(20000) {
		from, to := anyOptions(random), anyOptions(random)
		from.Cost = random.UpTo(from.Limit.Count)
		at := time.Unix(0, random.UpTo(algo.MaxInstant))
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

func TestChangedPeriodRoundsUp(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(1, 3*time.Nanosecond), Burst: 5, Cost: 2}
	s, _ := gcra.Step(gcra.State{}, start, o)
	s, _ = gcra.Step(s, start.Add(1), o)
	require.Equal(t, gcra.State{At: start.UnixNano() + 1, Used: 3, Part: 2, Period: 3}, s)

	for period, want := range map[time.Duration]gcra.State{ // 3 and 2/3, and one more
		1:  {Used: 5, Part: 0},
		2:  {Used: 5, Part: 0},
		3:  {Used: 4, Part: 2},
		4:  {Used: 4, Part: 3},
		6:  {Used: 4, Part: 4},
		10: {Used: 4, Part: 7},
	} {
		o := gcra.Options{Limit: algo.Per(1, period), Burst: 10}
		got, r := gcra.Step(s, start.Add(1), o)
		want.At, want.Period = s.At, period
		require.Equal(t, want, got, period)
		require.Equal(t, int64(5), r.Remaining, period)
	}
}
