package compose_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// Every way to ask about a key is about the same record, however long the names are.
func TestAllOperationsMeetOnAKey(t *testing.T) {
	for _, name := range []int{1, 400, 490, 500, 505, 506, 507, 508, 509, 510, 600} {
		for _, key := range []int{0, 3, 100, 480, 1 << 20} {
			l, err := compose.Options[call]{Clock: newVirtual().Now}.New(nil,
				compose.Rule[call]{Name: strings.Repeat("n", name), Key: byUser, Policy: limitOf(t, "fixedwindow 10/h")})
			require.NoError(t, err)
			in := call{user: strings.Repeat("k", key)}
			d, err := l.Allow(background, in)
			require.EqualValues(t, 9, must(t, d, err).Remaining)
			require.EqualValues(t, 9, leftFor(t, l, in), "a name of %d bytes, a key of %d", name, key)
			require.NoError(t, l.Reset(background, in))
			d, err = l.Allow(background, in)
			require.EqualValues(t, 9, must(t, d, err).Remaining)
		}
	}
}

func TestAtLeastOneCallIsAskedFor(t *testing.T) {
	never := func(call) (algo.Policy, error) { return nil, compose.Skip }
	rules := [][]compose.Rule[call]{
		nil,
		{{Name: "never", PolicyFor: never}},
		{{Name: "never", PolicyFor: never}, {Name: "neither", PolicyFor: never}},
		{{Name: "always", Policy: limitOf(t, "gcra 10/m")}},
	}
	for _, rules := range rules {
		for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
			l, err := compose.New(store, rules...)
			require.NoError(t, err)
			for _, n := range []int64{0, -1, math.MinInt64} {
				d, err := l.AllowN(background, call{}, n)
				require.ErrorIs(t, err, algo.ErrCost)
				require.EqualError(t, err, fmt.Sprintf("compose: n must be at least 1, got %d", n))
				require.False(t, d.Allowed)
				_, err = l.WaitN(background, call{}, n)
				require.ErrorIs(t, err, algo.ErrCost)
				_, err = l.PeekN(background, call{}, n)
				require.ErrorIs(t, err, algo.ErrCost)
				_, err = l.Refund(background, call{}, n)
				require.ErrorIs(t, err, algo.ErrCost)
				_, err = l.Charge(background, call{}, n)
				require.ErrorIs(t, err, algo.ErrCost)
			}
		}
	}
}

func TestResetNeedsNoCost(t *testing.T) {
	for _, cost := range []int64{0, -1} {
		l, err := compose.New(nil, compose.Rule[call]{
			Name: "bytes", Key: byUser, Policy: limitOf(t, "fixedwindow 100/h"), Cost: func(c call) int64 { return c.cost },
		})
		require.NoError(t, err)
		d, err := l.Allow(background, call{user: "ann", cost: 100})
		require.Zero(t, must(t, d, err).Remaining)
		require.NoError(t, l.Reset(background, call{user: "ann", cost: cost}))
		require.EqualValues(t, 100, leftFor(t, l, call{user: "ann", cost: 1}))
	}
}

// failing is a policy that cannot decide.
type failing struct{ algo.Policy }

var errPolicy = errors.New("no policy for this")

func (failing) Step([]byte, []byte, time.Time, int64) ([]byte, algo.Result, error) {
	return nil, algo.Result{Allowed: true}, errPolicy
}

// What a policy cannot decide is no failure of the store, and opens nothing.
func TestAnErrorOfAPolicyIsNoOutage(t *testing.T) {
	for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
		for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
			l, err := compose.Options[call]{OnFailure: p}.New(store, compose.Rule[call]{Name: "r", Policy: failing{limitOf(t, "gcra 1/h")}})
			require.NoError(t, err)
			d, err := l.Allow(background, call{})
			require.ErrorIs(t, err, errPolicy)
			require.ErrorContains(t, err, `rule "r"`)
			require.False(t, d.Allowed)
		}
	}
}

// A shadow denies nothing, even if it cannot decide at all.
func TestAShadowThatFailsIsToldOf(t *testing.T) {
	for _, store := range []func() storage.Store{
		func() storage.Store { return nil },
		func() storage.Store { return swapOnly{new(memory.Store)} },
	} {
		broken := compose.Rule[call]{Name: "trial", Policy: failing{limitOf(t, "gcra 1/h")}, Shadow: true}
		alone, err := compose.New(store(), broken)
		require.NoError(t, err)
		for range 2 {
			d, err := alone.Allow(background, call{})
			require.True(t, must(t, d, err).Allowed)
			require.ErrorIs(t, d.Results[0].Err, errPolicy)
			require.Zero(t, d.Results[0].Result)
		}

		l, err := compose.New(store(), compose.Rule[call]{Name: "real", Policy: limitOf(t, "gcra 2/h")}, broken)
		require.NoError(t, err)
		for i := range 3 {
			d, err := l.Allow(background, call{})
			require.Equal(t, i < 2, must(t, d, err).Allowed)
			require.NoError(t, d.Results[0].Err)
			require.ErrorIs(t, d.Results[1].Err, errPolicy)
			require.False(t, d.Results[1].Allowed)
		}
	}
}

// The functions of a rule are called once for a decision.
func TestRulesAreAskedOnce(t *testing.T) {
	for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
		calls := map[string]int{}
		note := func(what string) { calls[what]++ }
		l, err := compose.New(store, compose.Rule[call]{
			Name:      "r",
			Key:       func(c call) string { note("key"); return c.user },
			PolicyFor: func(call) (algo.Policy, error) { note("policy"); return limitOf(t, "gcra 9/h"), nil },
			Cost:      func(call) int64 { note("cost"); return 1 },
		})
		require.NoError(t, err)
		d, err := l.Allow(background, call{})
		require.True(t, must(t, d, err).Allowed)
		require.Equal(t, map[string]int{"key": 1, "policy": 1, "cost": 1}, calls)
	}
}

func TestAShadowThatCannotReadItsStateIsToldOf(t *testing.T) {
	for _, store := range []storage.Store{new(memory.Store), swapOnly{new(memory.Store)}} {
		for _, spec := range []string{"gcra 10/h", "fixedwindow 10/h", "tokenbucket 10/h"} {
			l, err := compose.New(store, compose.Rule[call]{Name: "trial", Policy: limitOf(t, spec), Shadow: true})
			require.NoError(t, err)
			d, err := l.Allow(background, call{})
			require.True(t, must(t, d, err).Allowed)
			if r := d.Results[0]; spec == "gcra 10/h" {
				require.EqualValues(t, 1, r.Paid)
			} else {
				require.ErrorIs(t, r.Err, algo.ErrState)
				require.Zero(t, r.Result)
			}
		}
	}
}

// However it is decided, each result tells what its rule was asked for.
func TestResultsTellTheCost(t *testing.T) {
	rules := []compose.Rule[call]{
		{Name: "bytes", Key: byUser, Policy: limitOf(t, "gcra 20/h"), Cost: func(c call) int64 { return c.cost }},
		{Name: "calls", Key: byUser, Policy: limitOf(t, "tokenbucket 9/h")},
		{Name: "all", Policy: limitOf(t, "fixedwindow 50/h")},
		{Name: "shadow", Policy: limitOf(t, "gcra 1/h"), Shadow: true},
	}
	want := map[string]int64{"bytes": 10, "calls": 2, "all": 2, "shadow": 2}
	for n := range rules {
		for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
			l, err := compose.New(store, rules[:n+1]...)
			require.NoError(t, err)
			in := call{user: "ann", cost: 5}
			for range 3 { // the last is denied
				d, err := l.AllowN(background, in, 2)
				for _, r := range must(t, d, err).Results {
					require.Equal(t, want[r.Rule], r.Cost, r.Rule)
				}
				require.Len(t, d.Results, n+1)
			}
			_, d, err := l.Reserve(background, in, 2)
			require.False(t, must(t, d, err).Allowed)
			require.Equal(t, want["bytes"], d.Results[0].Cost)
			d, err = l.PeekN(background, in, 2)
			require.Equal(t, want["bytes"], must(t, d, err).Results[0].Cost)
		}
	}
}
