package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 1, 2}, []policytest.Golden[tokenbucket.State, tokenbucket.Options]{
		{
			Options: tokenbucket.Options{Limit: algo.Per(3, time.Second)},
			Hex:     "74 01 035d013b4ab687 00000000002309eb 00000000000f4240",
			State:   tokenbucket.State{At: 946684801234567, Level: 2296299, Unit: 1000000},
		},
		{
			Options: tokenbucket.Options{Limit: algo.Per(100, time.Minute), Burst: 300},
			Hex:     "74 01 035d013b4ab687 00000000002417f9 00000000000927c0",
			State:   tokenbucket.State{At: 946684801234567, Level: 2365433, Unit: 600000},
		},
		{
			Options: tokenbucket.Options{Limit: algo.Per(3, time.Second), Burst: 5, Refill: tokenbucket.Interval},
			Hex:     "74 01 035d013b4ab687 0000000000000003 0008000000039447",
			State:   tokenbucket.State{At: 946684801234567, Level: 3, Unit: 1<<51 + 234567},
		},
	})
}

// The tests of package gcra check the rest of the encoding.
func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseErrors(t, map[string]error{
		"74": algo.ErrState,
		"67 01 035d013b4ab6d7 0000000000000002 0000000000000003": algo.ErrState, // of another algorithm
		"7402": algo.ErrStateVersion,
		"74 01 035d013b4ab6d7 0000000000000000 0000000000000003": algo.ErrState, // no tokens missing, which is no bytes
		"74 01 035d013b4ab6d7 0000000000000002 0000000000000000": algo.ErrState,
	})
	kit.ParseStates(t, map[string]tokenbucket.State{
		"": {},
		"74 01 00000000000005 0000000000000002 0000000000000003": {At: 5, Level: 2, Unit: 3},
	})
}

func TestStatesAreNormalized(t *testing.T) {
	for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
		o := tokenbucket.Options{Limit: algo.Per(10, time.Second), Refill: refill}
		kit.NormalizedStates(t, o, [][2]tokenbucket.State{
			{{At: 5, Unit: 7}, {}},
			{{At: 5, Level: -1, Unit: 7}, {}},
			{{At: 5, Level: 3}, {At: 5, Level: 3, Unit: 1}},
			{{At: 5, Level: 3, Unit: -1}, {At: 5, Level: 3, Unit: 1}},
			{{At: -5, Level: 3, Unit: 2}, {Level: 3, Unit: 2}},
			{{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {algo.MaxInstant, algo.MaxLevel, algo.MaxLevel}},
		})
	}
}
