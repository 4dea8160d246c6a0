package compose_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

func rulesOf(t testing.TB, specs ...string) (rules []compose.Rule[call]) {
	for i, spec := range specs {
		rules = append(rules, compose.Rule[call]{Name: fmt.Sprint("rule ", i), Key: byUser, Policy: limitOf(t, spec)})
	}
	return rules
}

// A decision by several rules allocates their keys, and a longer key twice. The rest comes from
// a pool, which the race detector empties now and then.
func TestADecisionInMemoryDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("with counters in it, Allow is too large to be inlined")
	}
	for _, specs := range [][]string{
		{"gcra 1000/s"},
		{"gcra 1/h"},
		{"gcra 1000/s", "tokenbucket 2000/m", "fixedwindow 100000/h"},
		{"gcra 1000/s", "movingwindow 2000/m slots=12", "tokenbucket 2/h"},
	} {
		l, err := compose.New(nil, rulesOf(t, specs...)...)
		require.NoError(t, err)
		in, decided := call{user: strings.Repeat("ann", 100)}, 0
		most := 0
		if len(specs) > 1 {
			most = 2*len(specs) + 8
		}
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			d, err := l.Allow(background, in)
			if err != nil || len(d.Results) != len(specs) {
				panic(err)
			}
			decided++
		}), float64(most), specs)
		require.Positive(t, decided)
	}
}

// For an observer, who may keep them, the results are allocated too. See above for the pool.
func TestAnObservedDecisionAllocatesItsResults(t *testing.T) {
	var last compose.Event
	l, err := compose.Options[call]{Observer: func(e compose.Event) { last = e }}.New(nil, rulesOf(t, "gcra 1000/s", "gcra 2000/m")...)
	require.NoError(t, err)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		if d, err := l.Allow(background, call{user: "ann"}); err != nil || len(d.Results) != 2 {
			panic(err)
		}
	}), 3.0+8)
	require.Len(t, last.Decision.Results, 2)
	kept, seen := last, slices.Clone(last.Decision.Results)
	_, err = l.Allow(background, call{user: "bob"})
	require.NoError(t, err)
	require.Equal(t, seen, kept.Decision.Results)
}

// A decision that is kept is not changed by those that follow.
func TestResultsAreTheCallers(t *testing.T) {
	l, err := compose.New(nil, rulesOf(t, "gcra 10/h", "gcra 20/h")...)
	require.NoError(t, err)
	var kept []compose.Decision
	for range 10 {
		d, err := l.Allow(background, call{user: "ann"})
		kept = append(kept, must(t, d, err))
	}
	for i, d := range kept {
		require.EqualValues(t, 9-i, d.Results[0].Remaining)
		require.EqualValues(t, 19-i, d.Results[1].Remaining)
	}
}

// detour hides that a store is one in memory, so that the limiter asks its engine.
type detour struct{ driver.InPlace }

// A limiter decides in place as its engine would, and on the same records.
func TestInPlaceOrNotTheDecisionsAreTheSame(t *testing.T) {
	for seed := range uint64(20) {
		random, clock := rand.New(rand.NewPCG(seed, 0)), newVirtual()
		specs := []string{"gcra 5/m", "tokenbucket 3/s burst=9", "movingwindow 20/m slots=6", "fixedwindow 7/m", "all(gcra 2/s; gcra 50/h)"}
		random.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
		rules := rulesOf(t, specs[:1+random.IntN(3)]...)
		rules[0].Shadow = random.IntN(3) == 0
		rules[0].PolicyFor = func(c call) (algo.Policy, error) { // not for those who pay less
			if c.write {
				return nil, compose.Skip
			}
			return limitOf(t, specs[0]), nil
		}
		rules[0].Policy = nil
		rules[len(rules)-1].Cost = func(c call) int64 { return c.cost }
		limiters := make([]*compose.Limiter[call], 2)
		one := new(memory.Store)
		for i, store := range []storage.Store{new(memory.Store), detour{new(memory.Store)}} {
			if seed%2 == 1 && i == 0 {
				store = one
			}
			l, err := compose.Options[call]{Clock: clock.Now, Namespace: "n", MaxSkew: time.Second}.New(store, rules...)
			require.NoError(t, err)
			limiters[i] = l
		}
		other, err := compose.Options[call]{Clock: clock.Now, Namespace: "n", MaxSkew: time.Second}.New(detour{one}, rules...)
		require.NoError(t, err)
		denied := 0
		for step := range 400 {
			clock.advance(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
			if random.IntN(50) == 0 {
				clock.advance(-2 * time.Second)
			}
			in := call{user: strings.Repeat("u", random.IntN(3)*300), cost: random.Int64N(4), write: random.IntN(4) == 0}
			n := 1 + random.Int64N(2)
			placed := limiters[0]
			if seed%2 == 1 && random.IntN(2) == 0 {
				placed = other // by way of the engine, on the very same records
			}
			d, err := placed.AllowN(background, in, n)
			want, wantErr := limiters[1].AllowN(background, in, n)
			require.Equal(t, wantErr, err)
			require.Equal(t, want.Err == nil, d.Err == nil)
			want.Err, d.Err = nil, nil
			if len(want.Results) == 0 {
				want.Results, d.Results = nil, nil
			}
			require.Equal(t, want, d, "seed %d step %d", seed, step)
			if !d.Allowed {
				denied++
			}
		}
		require.Positive(t, denied)
	}
}

func TestErrorsInPlace(t *testing.T) {
	store := new(memory.Store)
	l, err := compose.New(store, rulesOf(t, "gcra 10/h")...)
	require.NoError(t, err)
	_, swapped, err := store.CompareAndSwap(background, storage.Swap{
		Key: driver.Key("", "", "rule 0", "ann"), New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.True(t, swapped)
	_, err = l.Allow(background, call{user: "ann"})
	require.ErrorIs(t, err, algo.ErrState)
	require.ErrorContains(t, err, `rule "rule 0", key "ann"`)
	_, err = l.AllowN(background, call{user: "bob"}, 0)
	require.ErrorIs(t, err, algo.ErrCost)

	ended, cancel := context.WithCancel(background)
	cancel()
	_, err = l.Allow(ended, call{user: "bob"})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, store.Stats().Keys)
}

func TestADenialInPlaceWritesNothing(t *testing.T) {
	for _, specs := range [][]string{{"gcra 1/h"}, {"gcra 1/h", "gcra 100/h"}} {
		clock := newVirtual()
		store := &memory.Store{Clock: clock.Now}
		l, err := compose.Options[call]{Clock: clock.Now}.New(store, rulesOf(t, specs...)...)
		require.NoError(t, err)
		d, err := l.AllowN(background, call{user: "new"}, 2)
		require.False(t, must(t, d, err).Allowed)
		require.Zero(t, store.Stats().Keys)

		d, err = l.Allow(background, call{user: "ann"})
		require.True(t, must(t, d, err).Allowed)
		keys := []string{driver.Key("", "", "rule 0", "ann")}
		before, err := store.Load(background, keys...)
		require.NoError(t, err)
		require.NotZero(t, before[0].Version)
		clock.advance(time.Second)
		d, err = l.Allow(background, call{user: "ann"})
		require.False(t, must(t, d, err).Allowed)
		after, err := store.Load(background, keys...)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

func TestManyGoroutinesInPlaceAreAdmittedWhatThereIs(t *testing.T) {
	for _, specs := range [][]string{{"gcra 300/h"}, {"gcra 900/h", "tokenbucket 300/h"}} {
		l, err := compose.Options[call]{Clock: newVirtual().Now}.New(nil, rulesOf(t, specs...)...)
		require.NoError(t, err)
		var allowed atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					if d, err := l.Allow(background, call{user: "ann"}); err != nil {
						t.Error(err)
					} else if d.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 300, allowed.Load())
	}
}

// A panic of a policy leaves the records as they were, and unlocked.
func TestAPanicInPlaceWedgesNobody(t *testing.T) {
	policy := &panicking{Policy: limitOf(t, "gcra 10/h")}
	rules := rulesOf(t, "gcra 5/h", "gcra 10/h")
	rules[1].Policy = policy
	l, err := compose.New(nil, rules...)
	require.NoError(t, err)
	policy.panics = true
	require.Panics(t, func() { _, _ = l.Allow(background, call{user: "ann"}) })
	policy.panics = false
	d, err := l.Allow(background, call{user: "ann"})
	require.EqualValues(t, 4, must(t, d, err).Remaining)
}

type panicking struct {
	algo.Policy
	panics bool
}

func (p *panicking) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	if p.panics {
		panic("a policy's own")
	}
	return p.Policy.Step(dst, state, now, cost)
}
