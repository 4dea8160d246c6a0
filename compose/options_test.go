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
	"github.com/sluice-go/sluice/storage/driver"
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
				require.Equal(t, want, driver.KeyGroup(key))
			}
		}
	}
}

// A cached denial does not see that another process has reset the key, refunded it or raised
// its limit: for DenialCacheTTL at most. A process sees its own resets and refunds at once.
func TestADenialIsCachedForItsTTL(t *testing.T) {
	for name, giveBack := range map[string]func(*compose.Limiter[call]) error{
		"reset":  func(l *compose.Limiter[call]) error { return l.Reset(background, call{user: "ann"}) },
		"refund": func(l *compose.Limiter[call]) error { _, err := l.Refund(background, call{user: "ann"}, 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := contended{new(memory.Store)}
				process := func(o compose.Options[call]) *compose.Limiter[call] {
					l, err := o.New(store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/h")})
					require.NoError(t, err)
					return l
				}
				other, usual := process(compose.Options[call]{}), process(compose.Options[call]{})
				short, none := process(compose.Options[call]{DenialCacheTTL: time.Millisecond}), process(compose.Options[call]{DenialCacheTTL: -1})
				ask := func(l *compose.Limiter[call]) compose.Decision {
					d, err := l.Allow(background, call{user: "ann"})
					return must(t, d, err)
				}
				require.True(t, ask(other).Allowed)
				for _, l := range []*compose.Limiter[call]{usual, short, none} {
					require.False(t, ask(l).Cached, "nothing is cached yet")
				}
				require.False(t, ask(none).Cached)
				time.Sleep(500 * time.Millisecond)
				d := ask(usual)
				require.True(t, d.Cached)
				require.Equal(t, time.Hour-500*time.Millisecond, d.RetryAfter.Round(time.Millisecond))

				require.NoError(t, giveBack(other))
				time.Sleep(499 * time.Millisecond)
				require.True(t, ask(usual).Cached)
				time.Sleep(time.Millisecond)
				require.True(t, ask(usual).Allowed)
				require.False(t, ask(short).Allowed, "somebody has paid")

				require.NoError(t, giveBack(short))
				require.True(t, ask(short).Allowed, "its own")
			})
		})
	}
}

func TestAnOutageIsToldWithinTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stalls := range []bool{true, false} {
			l, err := compose.Options[call]{Timeout: 3 * time.Second}.New(absent{stalls},
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
