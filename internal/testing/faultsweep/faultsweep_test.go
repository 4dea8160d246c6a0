// The test promises that a run finds wrong results of a store. Each Run shows first that it finds no fault in a correct store.
package faultsweep

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

type swapFunc func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error)

// faultyStore calls swap instead of the third write. It hides the optional interfaces of Store.
type faultyStore struct {
	storage.Store
	writes int
	swap   swapFunc
}

func (s *faultyStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.writes++; s.writes == 3 {
		return s.swap(s.Store, swaps)
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// runOn makes a run without a network fault.
func runOn(t *testing.T, swap swapFunc) error {
	t.Helper()
	inner := struct{ storage.Store }{new(memory.Store)}
	r := run{
		Subject:   Subject{Proxy: faultproxy.Redis(t, "127.0.0.1:1"), Store: &faultyStore{Store: inner, swap: swap}, Direct: inner},
		namespace: t.Name(),
	}
	_, err := r.do()
	return err
}

func TestRunFindsWrongStores(t *testing.T) {
	ctx, errTimeout := t.Context(), errors.New("timeout")
	for name, c := range map[string]struct {
		swap  swapFunc
		found string
	}{
		"reports a swap that it did not make": {
			func(storage.Store, []storage.Swap) ([]storage.Record, bool, error) { return nil, true, nil },
			"used",
		},
		"reports ErrNotApplied for a swap that it made": {
			func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error) {
				_, _, _ = inner.CompareAndSwap(ctx, swaps...)
				return nil, false, storage.NotApplied(errTimeout)
			},
			"used",
		},
		"fails without a cause": {
			func(storage.Store, []storage.Swap) ([]storage.Record, bool, error) {
				return nil, false, storage.NotApplied(errTimeout)
			},
			"no cause",
		},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, runOn(t, c.swap), c.found) })
	}
}
