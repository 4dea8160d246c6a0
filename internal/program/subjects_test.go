// The tests of this package promise that the Lua and SQL programs of the algorithms, and of stacks,
// agree with Step for any state, time and cost, and that the tests find each fault in a program.
package program_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// subjects cover all options of the programs.
var subjects = []subject{
	{"gcra", func(l algo.Limit) (algo.Policy, error) { return gcra.New(gcra.Options{Limit: l}) }},
	{"gcra with a burst", func(l algo.Limit) (algo.Policy, error) {
		return gcra.New(gcra.Options{Limit: l, Burst: l.Count/2 + 3})
	}},
	{"tokenbucket", func(l algo.Limit) (algo.Policy, error) { return tokenbucket.New(tokenbucket.Options{Limit: l}) }},
	{"tokenbucket by interval", func(l algo.Limit) (algo.Policy, error) {
		return tokenbucket.New(tokenbucket.Options{Limit: l, Burst: 2*l.Count + 1, Refill: tokenbucket.Interval})
	}},
	{"fixedwindow", func(l algo.Limit) (algo.Policy, error) { return fixedwindow.New(fixedwindow.Options{Limit: l}) }},
	{"fixedwindow by the clock", func(l algo.Limit) (algo.Policy, error) {
		return fixedwindow.New(fixedwindow.Options{Limit: l, Align: fixedwindow.AlignClock, Offset: l.Period/3 - 1})
	}},
	{"movingwindow", func(l algo.Limit) (algo.Policy, error) { return movingwindow.New(movingwindow.Options{Limit: l}) }},
	{"movingwindow of 12 slots", func(l algo.Limit) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: l, Slots: 12})
	}},
	{"movingwindow of any slots", func(l algo.Limit) (algo.Policy, error) {
		slots := 2 + l.Count%5 // each slot is as long as the period, so that one state can have different numbers of slots
		return movingwindow.New(movingwindow.Options{Limit: algo.Per(l.Count, l.Period*time.Duration(slots)), Slots: int(slots)})
	}},
	{"movingwindow of 3 whole slots", func(l algo.Limit) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: l, Slots: 3, Trailing: movingwindow.Whole})
	}},
	{"a stack", func(l algo.Limit) (algo.Policy, error) {
		a, err := gcra.New(gcra.Options{Limit: l})
		if err != nil {
			return nil, err
		}
		b, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(min(l.Count, 1<<40)*3, l.Period)})
		if err != nil {
			return nil, err
		}
		c, err := movingwindow.New(movingwindow.Options{Limit: l, Slots: 4})
		if err != nil {
			return nil, err
		}
		return compose.All(a, b, c)
	}},
}

// Common limits have a program. Other limits use Load, Step and CompareAndSwap.
func TestCommonPoliciesHaveAProgram(t *testing.T) {
	for spec, want := range map[string]bool{
		"gcra 1/s": true, "gcra 100/m burst=20": true, "gcra 1000000/s": true, "gcra 10000/24h": true, "gcra 1000000/d": true,
		"gcra 1/50d": true, "gcra 7/s burst=1000000": true,
		"tokenbucket 10/s burst=50 refill=interval": true, "tokenbucket 100000/h": true, "tokenbucket 1000/d refill=interval": true,
		"fixedwindow 5/h align=clock offset=15m": true, "fixedwindow 1000000/30d": true, "fixedwindow 10/30d align=clock": true,
		"movingwindow 100/m slots=12 trailing=whole": true, "movingwindow 1000000/d": true, "movingwindow 1000/30d slots=30": true,
		"all(gcra 10/s; fixedwindow 1000/d)": true,

		"gcra 1/53d": false, "gcra 999983/d burst=100000000": false, "tokenbucket 1/105d": false, "tokenbucket 10/60d burst=1000 refill=interval": false,
		"fixedwindow 10/53d": false, "fixedwindow 5000000000000000/h": false, "movingwindow 10/30d": false, "movingwindow 10/105d slots=100": false,
		"all(gcra 10/s; fixedwindow 10/365d)": false,
	} {
		policy, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		_, ok := policy.(algo.Portable).Program()
		assert.Equal(t, want, ok, spec)
	}
	for _, zero := range []algo.Portable{gcra.Policy{}, tokenbucket.Policy{}, fixedwindow.Policy{}, movingwindow.Policy{}, new(compose.Stack)} {
		_, ok := zero.Program()
		assert.False(t, ok, "%T", zero)
	}
}

// fuzz checks that a program agrees with Step, or declines, for any state.
func fuzz(f *testing.F, run runner) {
	noon := int64(1767268800e9)
	f.Add(uint8(0), int64(100), int64(time.Minute), []byte(nil), noon, int64(1), uint8(0))
	for i, s := range subjects {
		policy, err := s.new(algo.Per(100, time.Minute))
		require.NoError(f, err)
		state, _, err := policy.Step(nil, nil, time.Unix(0, noon), 3)
		require.NoError(f, err)
		f.Add(uint8(i), int64(100), int64(time.Minute), state, noon+1e9, int64(2), uint8(i))
	}
	f.Fuzz(func(t *testing.T, subject uint8, count, period int64, state []byte, at, cost int64, op uint8) {
		policy, err := subjects[int(subject)%len(subjects)].new(algo.Per(count, time.Duration(period)))
		if err != nil {
			t.Skip(err)
		}
		portable := policy.(algo.Portable)
		if _, ok := portable.Program(); !ok || at < 0 || at > algo.MaxInstant || cost < 1 || cost >= algo.MaxExact {
			t.Skip("programs do not accept this input")
		}
		call := programCall{Op: "allow", State: state, At: at, Cost: cost, Times: 1 + int64(op/3)%8}
		if op%3 > 0 {
			call.Op, call.Times = []string{"refund", "charge"}[op%3-1], 1
		}
		_, err = compareProgram(portable, []programCall{call}, run)
		require.NoError(t, err)
	})
}
