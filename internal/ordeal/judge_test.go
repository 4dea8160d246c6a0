package ordeal

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// store is one in memory that goes wrong at the n-th write. It has none of the
// abilities of the one inside.
type store struct {
	storage.Store
	n, writes int
	wrong     func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error)
}

func (s *store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.writes++; s.writes == s.n {
		return s.wrong(s.Store, swaps)
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

var errTimeout = errors.New("timeout")

// judged is a run on a store that goes wrong, with a fault that never happens.
func judged(t *testing.T, wrong func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error)) error {
	t.Helper()
	inner := struct{ storage.Store }{new(memory.Store)}
	proxy := faultproxy.Redis(t, "127.0.0.1:1")
	r := run{
		Subject:   Subject{Proxy: proxy, Store: &store{Store: inner, n: 3, wrong: wrong}, Truth: inner},
		namespace: t.Name(),
	}
	return r.do()
}

func TestWhatIsWrongIsFound(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		wrong func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error)
		told  string
	}{
		"says that it stored what it did not": {
			func(storage.Store, []storage.Swap) ([]storage.Record, bool, error) { return nil, true, nil },
			"used",
		},
		"says that it did not store what it did": {
			func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error) {
				_, _, _ = inner.CompareAndSwap(ctx, swaps...)
				return nil, false, storage.NotApplied(errTimeout)
			},
			"used",
		},
		"fails for no reason": {
			func(storage.Store, []storage.Swap) ([]storage.Record, bool, error) {
				return nil, false, storage.NotApplied(errTimeout)
			},
			"no reason is told",
		},
		"shows what is not there": {
			func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error) {
				_, _, _ = inner.CompareAndSwap(ctx, swaps...)
				current, err := inner.Load(ctx, swaps[0].Key, swaps[len(swaps)-1].Key)
				return current[:len(swaps)], false, err
			},
			"used",
		},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, judged(t, c.wrong), c.told) })
	}
}

func TestNothingIsFoundWhereNothingIsWrong(t *testing.T) {
	require.NoError(t, judged(t, func(inner storage.Store, swaps []storage.Swap) ([]storage.Record, bool, error) {
		return inner.CompareAndSwap(context.Background(), swaps...)
	}))
}
