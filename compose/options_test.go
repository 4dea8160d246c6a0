package compose_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// keeper is a store that remembers the keys of its last swap.
type keeper struct {
	storage.Store
	keys []string
}

func (k *keeper) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	k.keys = nil
	for _, s := range swaps {
		k.keys = append(k.keys, s.Key)
	}
	return k.Store.CompareAndSwap(ctx, swaps...)
}

func TestEveryKeyOfADecisionHasTheGroupOfItsInput(t *testing.T) {
	store := &keeper{Store: new(memory.Store)}
	rules := []compose.Rule[call]{
		{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")},
		{Name: "resource", Key: byResource, Policy: limitOf(t, "gcra 2/m")},
		{Name: "everyone", Policy: limitOf(t, "gcra 3/m")},
	}
	for _, group := range []func(call) string{nil, byUser} {
		l, err := compose.Options[call]{Group: group}.New(store, rules...)
		require.NoError(t, err)
		for _, user := range []string{"ann", "{bob}"} {
			d, err := l.Allow(background, call{user: user, resource: user})
			require.True(t, must(t, d, err).Allowed)
			require.Len(t, store.keys, 3)
			want := ""
			if group != nil {
				want = user
			}
			for _, key := range store.keys {
				require.Equal(t, want, storage.KeyGroup(key))
			}
		}
	}
}

// A denial from memory does not see that another process has reset the key;
// MaxAge says how long.
func TestMaxAgeEndsADenialFromMemory(t *testing.T) {
	clock := newVirtual()
	store := contended{new(memory.Store)}
	process := func(maxAge time.Duration) *compose.Limiter[call] {
		l, err := compose.Options[call]{Clock: clock.Now, MaxAge: maxAge}.New(store,
			compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/h")})
		require.NoError(t, err)
		return l
	}
	ann := call{user: "ann"}
	other, patient, hasty := process(0), process(0), process(time.Minute)
	ask := func(l *compose.Limiter[call]) compose.Decision {
		d, err := l.Allow(background, ann)
		return must(t, d, err)
	}
	require.True(t, ask(other).Allowed)
	for _, l := range []*compose.Limiter[call]{patient, hasty} {
		require.False(t, ask(l).Memory, "nothing is known yet")
		require.True(t, ask(l).Memory)
	}
	require.NoError(t, other.Reset(background, ann))
	clock.advance(time.Minute)
	require.True(t, ask(hasty).Memory)
	clock.advance(time.Nanosecond)
	require.True(t, ask(patient).Memory)
	require.True(t, ask(hasty).Allowed)
}

func TestAnOutageIsToldWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stalls := range []bool{true, false} {
			l, err := compose.Options[call]{Budget: 3 * time.Second}.New(absent{stalls},
				compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/h")})
			require.NoError(t, err)
			began := time.Now()
			d, err := l.Allow(background, call{user: "ann"})
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.False(t, d.Allowed)
			require.InDelta(t, 3*time.Second, time.Since(began), float64(100*time.Millisecond))
		}
	})
}

// absent is a store whose database cannot be reached: it refuses, or does not
// answer.
type absent struct{ stalls bool }

func (a absent) Load(ctx context.Context, _ ...string) ([]storage.Record, error) {
	return nil, a.fail(ctx)
}

func (a absent) CompareAndSwap(ctx context.Context, _ ...storage.Swap) ([]storage.Record, bool, error) {
	return nil, false, a.fail(ctx)
}

func (a absent) fail(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if !a.stalls {
		return storage.NotApplied(fmt.Errorf("%w: refused", storage.ErrUnavailable))
	}
	<-ctx.Done()
	return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, ctx.Err()))
}
