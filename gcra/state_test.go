package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

func TestEncodingDoesNotChange(t *testing.T) {
	kit.GoldenStates(t, []int64{2, 1, 1, 2}, []policytest.Golden[gcra.State, gcra.Options]{
		{
			Options: gcra.Options{Limit: algo.Per(3, time.Second)},
			Hex:     "67 01 035d013b4ab687 00000000002309eb 00000000000f4240",
			State:   gcra.State{At: 946684801234567, Level: 2296299, Unit: 1000000},
		},
		{
			Options: gcra.Options{Limit: algo.Per(100, time.Minute)},
			Hex:     "67 01 035d013b4ab687 00000000002417f9 00000000000927c0",
			State:   gcra.State{At: 946684801234567, Level: 2365433, Unit: 600000},
		},
		{
			Options: gcra.Options{Limit: algo.Per(1, 365*24*time.Hour), Burst: 60},
			Hex:     "67 01 035d013b4ab687 0000ac1748646979 00001cae8c13e000",
			State:   gcra.State{At: 946684801234567, Level: 6*31536000000000 - 1234567, Unit: 31536000000000},
		},
	})
}

func TestParseStateRefusesOtherBytes(t *testing.T) {
	kit.ParseStates(t, map[string]gcra.State{
		"": {},
		"67 01 035d013b4ab6d7 0000000000000002 0000000000000003": {At: 946684801234647, Level: 2, Unit: 3},
		"67 01 00000000000000 0000000000000001 0000000000000001": {Level: 1, Unit: 1},
		"67 01 0fffffffffffff 000fffffffffffff 000fffffffffffff": {At: algo.MaxInstant, Level: algo.MaxLevel, Unit: algo.MaxLevel},
	})
	kit.ParseErrors(t, map[string]error{
		"74 01 035d013b4ab6d7 0000000000000002 0000000000000003": algo.ErrState, // another algorithm
		"67 00 035d013b4ab6d7 0000000000000002 0000000000000003": algo.ErrState, // version 0
		"67":                                    algo.ErrState, // a byte
		"67 01 035d013b4ab6d7 0000000000000002": algo.ErrState, // a field missing
		"67 01 035d013b4ab6d7 0000000000000002 000000000000000300": algo.ErrState, // a byte too many
		"67 01 035d013b4ab6d7 0000000000000000 0000000000000003":   algo.ErrState, // nothing in use, which is no bytes
		"67 01 00000000000000 0000000000000000 0000000000000000":   algo.ErrState, // the same
		"67 01 035d013b4ab6d7 0000000000000002 0000000000000000":   algo.ErrState, // a weight of 0
		"67 01 035d013b4ab6d7 0000000000000002 ffffffffffffffff":   algo.ErrState, // a negative weight
		"67 01 035d013b4ab6d7 0010000000000000 0000000000000003":   algo.ErrState, // a level of 2^52
		"67 01 035d013b4ab6d7 ffffffffffffffff 0000000000000003":   algo.ErrState, // a negative level
		"67 01 10000000000000 0000000000000002 0000000000000003":   algo.ErrState, // a time after 2112
		"67 02":          algo.ErrStateVersion,
		"67 ff 01 02 03": algo.ErrStateVersion,
		"67 02 035d013b4ab6d7 0000000000000002 0000000000000003": algo.ErrStateVersion,
	})
}

func TestStatesAreNormalized(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(10, time.Second)}
	kit.NormalizedStates(t, o, [][2]gcra.State{
		{{At: 5, Unit: 7}, {}},
		{{At: 5, Level: -1, Unit: 7}, {}},
		{{Level: 3}, {Level: 3, Unit: 1}},
		{{At: -5, Level: 3, Unit: 2}, {Level: 3, Unit: 2}},
		{{At: 9, Level: 3, Unit: -2}, {At: 9, Level: 3, Unit: 1}},
		{{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {algo.MaxInstant, algo.MaxLevel, algo.MaxLevel}},
		{{At: 9, Level: 3, Unit: 2}, {At: 9, Level: 3, Unit: 2}},
	})
}

// Whole units do not change if the limit changes and changes back, unless they are more than the arithmetic can hold.
func TestChangedLimitKeepsWholeUnits(t *testing.T) {
	random := sample.New(3, 4)
	compared := 0
	for range policytest.Rounds(20000) {
		from, to := anyOptions(random), anyOptions(random)
		from.Cost = random.UpTo(from.Limit.Count)
		at := time.UnixMicro(random.UpTo(algo.MaxInstant))
		s, before := gcra.Step(gcra.State{}, at, from)
		after := gcra.Peek(s, at, to)
		if !before.Allowed || -after.Remaining >= after.Limit-1 {
			continue
		}
		compared++
		require.Equal(t, before.Limit-before.Remaining, after.Limit-after.Remaining, "%+v to %+v", from, to)

		to.Cost = 1
		charged, _ := gcra.Charge(s, at, to)
		returned, _ := gcra.Refund(charged, at, to)
		from.Cost = 1
		require.Equal(t, gcra.Peek(s, at, from), gcra.Peek(returned, at, from), "%+v to %+v and back", from, to)
	}
	require.Positive(t, compared)
}

func TestPartOfAUnitCountsAsAWholeUnitAfterAChange(t *testing.T) {
	o := gcra.Options{Limit: algo.Per(1, 3*time.Second), Burst: 5, Cost: 4}
	s, _ := gcra.Step(gcra.State{}, start, o)
	o.Cost = 1
	s, _ = gcra.Step(s, start.Add(time.Second), o)
	require.Equal(t, gcra.State{At: start.UnixMicro() + 1e6, Level: 14e6, Unit: 3e6}, s) // 4 and 2/3

	for period, unit := range map[time.Duration]int64{time.Second: 1e6, 2 * time.Second: 2e6, 3 * time.Second: 3e6, 4 * time.Second: 4e6} {
		got, r := gcra.Step(s, start.Add(time.Second), gcra.Options{Limit: algo.Per(1, period), Burst: 10})
		want := gcra.State{At: s.At, Level: 6 * unit, Unit: unit}
		if unit == s.Unit {
			want.Level = 17e6
		}
		require.Equal(t, want, got, period)
		require.Equal(t, int64(4), r.Remaining, period)
	}
}
