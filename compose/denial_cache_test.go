package compose_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// Whether the cache answers or not, the functions of the rule run once.
func TestACachedDenialAsksTheRuleOnce(t *testing.T) {
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
	require.ErrorIs(t, err, context.Canceled, "also if the denial is cached")
	_, err = l.AllowN(background, call{user: "ann"}, 0)
	require.ErrorIs(t, err, algo.ErrCost)
}

// A state that cannot be read is an error each time: it is not cached.
func TestAForeignStateIsNotCached(t *testing.T) {
	store := new(memory.Store)
	one, err := compose.New(swapOnly{store}, rulesOf(t, "gcra 1/h")...)
	require.NoError(t, err)
	d, err := one.Allow(background, call{user: "ann"})
	require.True(t, must(t, d, err).Allowed)
	key := driver.Key("", "", "rule 0", "ann")
	records, err := store.Load(background, key)
	require.NoError(t, err)
	_, swapped, err := store.CompareAndSwap(background, storage.Swap{Key: key, Old: records[0].Version,
		New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.True(t, swapped)
	other, err := compose.New(swapOnly{store}, rulesOf(t, "gcra 1/h")...)
	require.NoError(t, err)
	for range 2 {
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

func (s *silent) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if s.is {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Load(ctx, keys...)
}
