package fixedwindow_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 40, 90}, []algorithmtest.Golden[fixedwindow.State, fixedwindow.Options]{
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second)},
			Hex:     "6601 0d234ccf9bd902ab 5a",
			State:   fixedwindow.State{Start: 946684801234567851, Used: 90},
		},
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Minute)},
			Hex:     "6601 0d234ccf52430000 8501",
			State:   fixedwindow.State{Start: 946684800000000000, Used: 133},
		},
		{
			Options: fixedwindow.Options{Limit: algo.Per(1000, time.Second), Align: fixedwindow.AlignClock, Offset: 500 * time.Millisecond},
			Hex:     "6601 0d234ccf8351ac72 8201",
			State:   fixedwindow.State{Start: 946684800823045234, Used: 130},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseErrors(t, map[string]error{
		"66":                       algo.ErrState,
		"6601":                     algo.ErrState,
		"6600 0000000000000005 01": algo.ErrState,
		"6701 0000000000000005 01": algo.ErrState, // of another algorithm
		"6602":                     algo.ErrStateVersion,
		"6602 0000000000000005 01": algo.ErrStateVersion,
		"66ff 00":                  algo.ErrStateVersion,

		"6601 00000000000000":         algo.ErrState, // truncated
		"6601 0000000000000005":       algo.ErrState,
		"6601 0000000000000005 80":    algo.ErrState,
		"6601 0000000000000005 01 00": algo.ErrState, // a byte too many

		"6601 0000000000000005 00":                     algo.ErrState, // no units used, which is no bytes
		"6601 4000000000000000 01":                     algo.ErrState, // after MaxInstant
		"6601 ffffffffffffffff 01":                     algo.ErrState,
		"6601 0000000000000005 818080808080808040":     algo.ErrState, // 2^62+1 used
		"6601 0000000000000005 ffffffffffffffffff01":   algo.ErrState,
		"6601 0000000000000005 8100":                   algo.ErrState, // not the shortest form
		"6601 0000000000000005 ffffffffffffffffff02":   algo.ErrState, // beyond 64 bits
		"6601 0000000000000005 8080808080808080808001": algo.ErrState,
	})
	kit.ParseStates(t, map[string]fixedwindow.State{
		"":                         {},
		"6601 0000000000000000 01": {Used: 1},
		"6601 3fffffffffffffff 808080808080808040": {Start: algo.MaxInstant, Used: algo.MaxCount},
	})
}

func TestStatesAreNormalized(t *testing.T) {
	o := fixedwindow.Options{Limit: algo.Per(10, time.Second)}
	kit.NormalizedStates(t, o, [][2]fixedwindow.State{
		{{Start: 5}, {}},
		{{Start: math.MaxInt64, Used: -1}, {}},
		{{Start: 5, Used: math.MaxInt64}, {Start: 5, Used: algo.MaxCount}},
		{{Start: math.MinInt64, Used: 3}, {Used: 3}},
		{{Start: math.MaxInt64, Used: 3}, {Start: algo.MaxInstant, Used: 3}},
	})
}

func TestWindowBeyondMaxInt64DoesNotEnd(t *testing.T) {
	for _, o := range []fixedwindow.Options{
		{Limit: algo.Per(1, math.MaxInt64)},
		{Limit: algo.Per(1, math.MaxInt64), Align: fixedwindow.AlignClock, Offset: -1},
		{Limit: algo.Per(1, 1<<62), Align: fixedwindow.AlignClock, Offset: 1 << 61},
	} {
		s, r := kit.CallAt(fixedwindow.State{}, algorithm.Step, algo.MaxInstant, o, 1)
		require.True(t, r.Allowed)
		require.Positive(t, r.ResetAfter)
		_, r = fixedwindow.Step(s, time.Unix(math.MaxInt64, 0), o)
		require.False(t, r.Allowed, "%+v: %+v", o, r)
	}
}
