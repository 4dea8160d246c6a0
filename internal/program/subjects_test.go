// The tests of this package promise that the Lua and SQL programs of the algorithms, and of stacks,
// agree with Step for any state, time and cost, and that the tests find each fault in a program.
package program_test

import (
	"fmt"
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

// noon is the time of the first call in a fuzz test, and when units are paid that are held.
const noon = 1767268800e6

// subjects cover all options of the programs.
var subjects = []subject{
	{name: "gcra", new: func(l algo.Limit) (algo.Policy, error) { return gcra.New(gcra.Options{Limit: l}) }},
	{name: "gcra with a burst", new: func(l algo.Limit) (algo.Policy, error) {
		return gcra.New(gcra.Options{Limit: l, Burst: l.Count/2 + 3})
	}},
	{name: "tokenbucket", new: func(l algo.Limit) (algo.Policy, error) { return tokenbucket.New(tokenbucket.Options{Limit: l}) }},
	{name: "tokenbucket by interval", new: func(l algo.Limit) (algo.Policy, error) {
		return tokenbucket.New(tokenbucket.Options{Limit: l, Burst: 2*l.Count + 1, Refill: tokenbucket.Interval})
	}},
	{name: "fixedwindow", new: func(l algo.Limit) (algo.Policy, error) { return fixedwindow.New(fixedwindow.Options{Limit: l}) }},
	{name: "fixedwindow by the clock", new: func(l algo.Limit) (algo.Policy, error) {
		return fixedwindow.New(fixedwindow.Options{Limit: l, Align: fixedwindow.AlignClock, Offset: (l.Period / 3).Truncate(time.Microsecond)})
	}},
	{name: "movingwindow", new: func(l algo.Limit) (algo.Policy, error) { return movingwindow.New(movingwindow.Options{Limit: l}) }},
	{name: "movingwindow of 12 slots", new: func(l algo.Limit) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: l, Slots: 12})
	}},
	{name: "movingwindow of any slots", new: func(l algo.Limit) (algo.Policy, error) {
		slots := 2 + l.Count%5 // each slot is as long as the period, so that one state can have different numbers of slots
		return movingwindow.New(movingwindow.Options{Limit: algo.Per(l.Count, l.Period*time.Duration(slots)), Slots: int(slots)})
	}},
	{name: "movingwindow of 3 whole slots", new: func(l algo.Limit) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: l, Slots: 3, Trailing: movingwindow.Whole})
	}},
	{name: "movingwindow of units that are held", from: noon, new: func(l algo.Limit) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: l, Slots: 3, Trailing: movingwindow.Whole, PaidAt: time.UnixMicro(noon)})
	}},
	{name: "a stack", new: func(l algo.Limit) (algo.Policy, error) {
		return compose.ParsePolicy(fmt.Sprintf("all(gcra %[1]v; fixedwindow %[2]v; movingwindow %[1]v slots=4)", l, algo.Per(min(l.Count*3, algo.MaxCount), l.Period)))
	}},
}

// programsOfSubjects returns the programs of all subjects, for an arbitrary limit.
func programsOfSubjects(t testing.TB) (programs []algo.Program) {
	for _, s := range subjects {
		policy, err := s.new(algo.Per(100, time.Minute))
		require.NoError(t, err)
		p, ok := policy.(algo.Portable).Program()
		require.True(t, ok, s.name)
		programs = append(programs, p)
	}
	return programs
}

func TestZeroPoliciesHaveNoProgram(t *testing.T) {
	for _, zero := range []algo.Portable{gcra.Policy{}, tokenbucket.Policy{}, fixedwindow.Policy{}, movingwindow.Policy{}, new(compose.Stack)} {
		_, ok := zero.Program()
		assert.False(t, ok, "%T", zero)
	}
}

// fuzz checks that a program agrees with Step, or declines, for any state.
func fuzz(f *testing.F, run runner) {
	f.Add(uint8(0), int64(100), time.Minute.Microseconds(), []byte(nil), int64(noon), int64(1), uint8(0))
	for i, s := range subjects {
		policy, err := s.new(algo.Per(100, time.Minute))
		require.NoError(f, err)
		state, _, err := policy.Charge(nil, nil, time.UnixMicro(noon), 3)
		require.NoError(f, err)
		f.Add(uint8(i), int64(100), time.Minute.Microseconds(), state, int64(noon+1e6), int64(2), uint8(i))
	}
	f.Fuzz(func(t *testing.T, subject uint8, count, period int64, state []byte, at, cost int64, op uint8) {
		policy, err := subjects[int(subject)%len(subjects)].new(algo.Per(count, time.Duration(period)*time.Microsecond))
		if err != nil {
			t.Skip(err)
		}
		portable := policy.(algo.Portable)
		if at < 0 || at > algo.MaxInstant || cost < 1 || cost > algo.MaxLevel {
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
