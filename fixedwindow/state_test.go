package fixedwindow_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 40, 90}, []policytest.Golden[fixedwindow.State, fixedwindow.Options]{
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second)},
			Hex:     "66 01 035d013b4ab687 000000000000005a",
			State:   fixedwindow.State{Start: 946684801234567, Used: 90},
		},
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Minute)},
			Hex:     "66 01 035d013b37e000 0000000000000085",
			State:   fixedwindow.State{Start: 946684800000000, Used: 133},
		},
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second), Align: fixedwindow.AlignClock, Offset: 500 * time.Millisecond},
			Hex:     "66 01 035d013b446f05 0000000000000082",
			State:   fixedwindow.State{Start: 946684800823045, Used: 130},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseErrors(t, map[string]error{
		"66":                                    algo.ErrState,
		"6601":                                  algo.ErrState,
		"66 00 00000000000005 0000000000000001": algo.ErrState, // version 0
		"67 01 00000000000005 0000000000000001": algo.ErrState, // of another algorithm
		"6602":                                  algo.ErrStateVersion,
		"66 02 00000000000005 0000000000000001": algo.ErrStateVersion,
		"66ff 00":                               algo.ErrStateVersion,

		"66 01 00000000000005":                    algo.ErrState, // truncated
		"66 01 00000000000005 00000000000001":     algo.ErrState,
		"66 01 00000000000005 000000000000000100": algo.ErrState, // a byte too many

		"66 01 00000000000005 0000000000000000": algo.ErrState, // no units used, which is no bytes
		"66 01 10000000000000 0000000000000001": algo.ErrState, // after MaxInstant
		"66 01 ffffffffffffff 0000000000000001": algo.ErrState,
		"66 01 00000000000005 0010000000000000": algo.ErrState, // 2^52 used
		"66 01 00000000000005 ffffffffffffffff": algo.ErrState,
	})
	kit.ParseStates(t, map[string]fixedwindow.State{
		"":                                      {},
		"66 01 00000000000000 0000000000000001": {Used: 1},
		"66 01 0fffffffffffff 000fffffffffffff": {Start: algo.MaxInstant, Used: algo.MaxLevel},
	})
}

func TestStatesAreNormalized(t *testing.T) {
	o := fixedwindow.Options{Limit: algo.Per(10, time.Second)}
	kit.NormalizedStates(t, o, [][2]fixedwindow.State{
		{{Start: 5}, {}},
		{{Start: math.MaxInt64, Used: -1}, {}},
		{{Start: 5, Used: math.MaxInt64}, {Start: 5, Used: algo.MaxLevel}},
		{{Start: math.MinInt64, Used: 3}, {Used: 3}},
		{{Start: math.MaxInt64, Used: 3}, {Start: algo.MaxInstant, Used: 3}},
	})
}

// No clock reaches the end of a window that ends after algo.MaxInstant.
func TestWindowBeyondMaxInstantDoesNotEnd(t *testing.T) {
	for _, o := range []fixedwindow.Options{
		{Limit: algo.Per(1, time.Microsecond)},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(1, time.Minute), Align: fixedwindow.AlignClock, Offset: -time.Second},
	} {
		s, r := kit.CallAt(fixedwindow.State{}, policy.Step, algo.MaxInstant, o, 1)
		require.True(t, r.Allowed)
		require.Positive(t, r.ResetAfter)
		_, r = fixedwindow.Step(s, time.Unix(math.MaxInt64, 0), o)
		require.False(t, r.Allowed, "%+v: %+v", o, r)
	}
}
