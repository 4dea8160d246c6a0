package compose_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// What a glance at the memory denies, the engine would have denied with the very
// same words. A limiter of two rules always asks its engine, whether they apply or not.
func TestAGlanceDecidesAsTheEngine(t *testing.T) {
	for seed := range uint64(20) {
		random, clock := rand.New(rand.NewPCG(seed, 0)), newVirtual()
		specs := []string{"gcra 5/m", "tokenbucket 3/s burst=9", "movingwindow 20/m slots=6", "fixedwindow 7/m", "all(gcra 2/s; gcra 50/h)"}
		policy := limitOf(t, specs[seed%5])
		rule := compose.Rule[call]{Name: "rule", Key: byUser, Shadow: seed%7 == 6,
			PolicyFor: func(c call) (algo.Policy, error) {
				if c.write {
					return nil, compose.Skip
				}
				return policy, nil
			},
			Cost: func(c call) int64 { return c.cost },
		}
		options := compose.Options[call]{Clock: clock.Now, Namespace: "n", MaxSkew: time.Second, Group: func(c call) string { return c.user }}
		if seed%2 == 0 {
			options.MaxAge = time.Second
		}
		glancing, err := options.New(swapOnly{&memory.Store{Clock: clock.Now}}, rule)
		require.NoError(t, err)
		never := compose.Rule[call]{Name: "never", PolicyFor: func(call) (algo.Policy, error) { return nil, compose.Skip }}
		asking, err := options.New(swapOnly{&memory.Store{Clock: clock.Now}}, rule, never)
		require.NoError(t, err)
		remembered := 0
		for step := range 400 {
			clock.advance(time.Duration(random.ExpFloat64() * float64(200*time.Millisecond)))
			if random.IntN(50) == 0 {
				clock.advance(-2 * time.Second)
			}
			in := call{user: strings.Repeat("u", random.IntN(3)*300), cost: random.Int64N(4), write: random.IntN(4) == 0}
			n := 1 + random.Int64N(2)
			d, err := glancing.AllowN(background, in, n)
			require.NoError(t, err)
			want, err := asking.AllowN(background, in, n)
			require.NoError(t, err)
			require.Equal(t, want.Err == nil, d.Err == nil)
			want.Err, d.Err = nil, nil
			if len(want.Results) == 0 {
				want.Results, d.Results = nil, nil
			}
			require.Equal(t, want, d, "seed %d step %d", seed, step)
			if d.Memory {
				remembered++
			}
		}
		require.Equal(t, !rule.Shadow, remembered > 0)
	}
}

func TestADenialFromMemoryDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("with counters in it, Allow is too large to be inlined")
	}
	l, err := compose.New(swapOnly{new(memory.Store)}, rulesOf(t, "gcra 1/h")...)
	require.NoError(t, err)
	in := call{user: strings.Repeat("ann", 30)}
	d, err := l.Allow(background, in)
	require.True(t, must(t, d, err).Allowed)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if d, err := l.Allow(background, in); err != nil || d.Allowed || !d.Memory {
			panic("not denied from memory")
		}
	}))
}

// Whether a glance answers or not, the functions of the rule run once.
func TestAGlanceAsksTheRuleOnce(t *testing.T) {
	asked := 0
	rule := compose.Rule[call]{Name: "rule", Policy: limitOf(t, "gcra 1/h"), Key: func(c call) string {
		asked++
		return c.user
	}}
	l, err := compose.New(swapOnly{new(memory.Store)}, rule)
	require.NoError(t, err)
	for i, want := range []bool{true, false, false} {
		d, err := l.Allow(background, call{user: "ann"})
		require.Equal(t, want, must(t, d, err).Allowed)
		require.Equal(t, i+1, asked)
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	_, err = l.Allow(ended, call{user: "ann"})
	require.ErrorIs(t, err, context.Canceled, "also where the answer is remembered")
	_, err = l.AllowN(background, call{user: "ann"}, 0)
	require.ErrorIs(t, err, algo.ErrCost)
}

// A remembered state that cannot be read denies nothing: the store has the word.
func TestAGlanceAtAForeignState(t *testing.T) {
	store := new(memory.Store)
	one, err := compose.New(swapOnly{store}, rulesOf(t, "gcra 1/h")...)
	require.NoError(t, err)
	d, err := one.Allow(background, call{user: "ann"})
	require.True(t, must(t, d, err).Allowed)
	key := storage.Key("", "", "rule 0", "ann")
	records, err := store.Load(background, key)
	require.NoError(t, err)
	_, swapped, err := store.CompareAndSwap(background, storage.Swap{Key: key, Old: records[0].Version,
		New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.True(t, swapped)
	other, err := compose.New(swapOnly{store}, rulesOf(t, "gcra 1/h")...)
	require.NoError(t, err)
	for range 2 { // learned, then remembered
		_, err = other.Allow(background, call{user: "ann"})
		require.ErrorIs(t, err, algo.ErrState)
	}
}

// silent is a store that no longer answers.
type silent struct {
	storage.Store
	is bool
}

func (s *silent) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.is {
		<-ctx.Done()
		return nil, false, storage.NotApplied(ctx.Err())
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// A look does not glance: the engine answers it by what it remembers, also while its store
// is silent.
func TestALookIsAnsweredFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{Store: swapOnly{new(memory.Store)}}
		l, err := compose.New(s, rulesOf(t, "gcra 1/h")...)
		require.NoError(t, err)
		in := call{user: "ann"}
		d, err := l.Allow(background, in)
		require.True(t, must(t, d, err).Allowed)

		s.is = true
		refunded := make(chan error)
		go func() { // the key is on its way
			_, err := l.Refund(background, in, 1)
			refunded <- err
		}()
		synctest.Wait()

		glancing, err := compose.New(swapOnly{new(memory.Store)}, rulesOf(t, "gcra 9/h")...)
		require.NoError(t, err)
		for range 3 { // and leaves to others what it glanced with
			d, err := glancing.Allow(background, in)
			require.True(t, must(t, d, err).Allowed)
		}

		d, err = l.Peek(background, in)
		require.False(t, must(t, d, err).Allowed)
		require.True(t, d.Memory)
		require.ErrorIs(t, <-refunded, storage.ErrUnavailable)
	})
}
