package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
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

// The tests of package gcra check the rest of the encoding.
func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseErrors(t, map[string]error{
		"74":                                algo.ErrState,
		"6701 11 0000000000000005 02 01 03": algo.ErrState, // of another algorithm
		"7402":                              algo.ErrStateVersion,
		"7401 11 0000000000000005 02 03 03": algo.ErrState, // a part of the whole
		"7401 01 0000000000000005 01 03":    algo.ErrState, // no units used, which is no bytes
		"7401 11 0000000000000005 00 01 03": algo.ErrState,
	})
	kit.ParseStates(t, map[string]tokenbucket.State{
		"":                                  {},
		"7401 11 0000000000000005 02 01 03": {Used: 2, At: 5, Part: 1, Period: 3},
	})
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
	s, _ := tokenbucket.Step(tokenbucket.State{}, start, o)
	s, _ = tokenbucket.Step(s, start.Add(400*time.Millisecond), o) // 0.8 of a token

	faster := tokenbucket.Options{Limit: algo.Per(2000, time.Second)}
	r := tokenbucket.Peek(s, start.Add(400*time.Millisecond), faster)
	require.EqualValues(t, 1998, r.Remaining, "the time before the change counts at the new rate")
	require.Equal(t, 100*time.Microsecond, r.NextRefill)

	shorter := tokenbucket.Options{Limit: algo.Per(2, time.Millisecond)}
	r = tokenbucket.Peek(s, start.Add(400*time.Millisecond), shorter)
	require.Zero(t, r.Remaining)
	require.Equal(t, 100*time.Microsecond, r.NextRefill, "the same fraction of a token")
}
