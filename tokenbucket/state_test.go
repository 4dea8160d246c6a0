package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 1, 2}, []algorithmtest.Golden[tokenbucket.State, tokenbucket.Options]{
		{
			Options: tokenbucket.Options{Limit: algo.Per(3, time.Second)},
			Hex:     "7401 14 0d234ccf9bd902ab 03 29f1aa01 3b9aca00",
			State:   tokenbucket.State{Used: 3, At: 946684801234567851, Part: 703703553, Period: time.Second},
		},
		{
			Options: tokenbucket.Options{Limit: algo.Per(100, time.Minute), Burst: 300},
			Hex:     "7401 15 0d234ccf9bd902ab 04 00ce0a5acc 0df8475800",
			State:   tokenbucket.State{Used: 4, At: 946684801234567851, Part: 3456785100, Period: time.Minute},
		},
		{
			Options: tokenbucket.Options{Limit: algo.Per(3, time.Second), Burst: 5, Refill: tokenbucket.Interval},
			Hex:     "7401 14 0d234ccf9bd902ab 03 0dfb38ab 3b9aca00",
			State:   tokenbucket.State{Used: 3, At: 946684801234567851, Part: 234567851, Period: time.Second},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseErrors(t, map[string]error{
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
	})
	kit.ParseStates(t, map[string]tokenbucket.State{
		"":                                  {},
		"7401 11 0000000000000005 02 01 03": {Used: 2, At: 5, Part: 1, Period: 3},
		"7401 88 3fffffffffffffff 4000000000000000 7ffffffffffffffe 7fffffffffffffff": {Used: algo.MaxCount, At: algo.MaxInstant, Part: math.MaxInt64 - 1, Period: math.MaxInt64},
	})
}

func TestStatesHaveTheSizesOfTheDoc(t *testing.T) {
	sizes := map[int]bool{}
	for _, spec := range []string{"10/s", "100/m", "1000/h", "100000/h", "1000/d"} {
		limit, err := algo.ParseLimit(spec)
		require.NoError(t, err)
		for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
			for _, cost := range []int64{1, limit.Count} {
				o := tokenbucket.Options{Limit: limit, Refill: refill}
				s, _ := kit.CallAt(tokenbucket.State{}, algorithm.Step, y2k.UnixNano(), o, cost)
				s, _ = kit.CallAt(s, algorithm.Charge, y2k.UnixNano()+333_333_333, o, 1)
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

func TestStatesAreNormalized(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(10, time.Second)}
	kit.NormalizedStates(t, o, [][2]tokenbucket.State{
		{{At: 5, Part: 7}, {}},
		{{Used: -1, At: 5, Part: 7}, {}},
		{{Used: math.MaxInt64, At: 5}, {Used: algo.MaxCount, At: 5}},
		{{Used: 3, At: -5}, {Used: 3}},
		{{Used: 3, At: math.MaxInt64}, {Used: 3, At: algo.MaxInstant}},
		{{Used: 3, At: 5, Part: math.MinInt64, Period: 7}, {Used: 3, At: 5, Period: 7}},
		{{Used: 3, At: 5, Part: 7}, {Used: 3, At: 5, Period: 1}},
		{{Used: 3, At: 5, Part: 7, Period: -1}, {Used: 3, At: 5, Period: 1}},
		{{Used: 3, At: 5, Part: 7, Period: 7}, {Used: 3, At: 5, Part: 6, Period: 7}},
	})
	// Part is cut to less than a whole refill.
	r := tokenbucket.Peek(tokenbucket.State{Used: 3, At: 5, Part: math.MaxInt64, Period: time.Second}, time.Unix(0, 5), o)
	require.EqualValues(t, 7, r.Remaining)
	require.EqualValues(t, 1, r.NextRefill)
}

func TestAccruedPartOfARefillSurvivesAChangedLimit(t *testing.T) {
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
