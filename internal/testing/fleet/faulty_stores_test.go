package fleet

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// record records two runs of a few callers on a store in memory.
func record(t *testing.T, store storage.Store, between func(*fleet)) *verifier {
	f := newFleet(t, "", 0, longTimeout)
	f.store, f.task.Callers, f.task.Enough = store, 4, 40
	f.workHere(store)
	between(f)
	f.workHere(store)
	return f.newVerifier()
}

// The store loses its state once.
func TestVerifierFindsLostState(t *testing.T) {
	require.Empty(t, record(t, new(memory.Store), func(*fleet) {}).verify())
	v := record(t, new(memory.Store), func(f *fleet) {
		l, err := workloads[0].limiter(sluice.Options[*recordedCall]{Namespace: f.task.Namespace, Clock: f.page.now}, f.store)
		require.NoError(t, err)
		require.NoError(t, l.Reset(context.Background(), &recordedCall{entry: entry{Key: "0", Cost: 1}}))
	})
	require.Contains(t, strings.Join(v.verify(), "\n"), "the store lost the state")
}

// overwritingStore applies each swap, despite conflicts. Some loads are as old as the last write, as if another process had
// written after them.
type overwritingStore struct {
	storage.Store
	mu     sync.Mutex
	before map[string]storage.Record
	loads  int
}

func newOverwritingStore() *overwritingStore {
	return &overwritingStore{Store: new(memory.Store), before: map[string]storage.Record{}}
}

func (h *overwritingStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, now, err := h.Store.Load(ctx, keys...)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, key := range keys {
		if h.loads++; err == nil && h.loads%10 == 0 && h.before[key].Version != 0 {
			records[i] = h.before[key]
		}
	}
	return records, now, err
}

func (h *overwritingStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range swaps {
		found, _, err := h.Store.Load(ctx, swaps[i].Key)
		if err != nil {
			return nil, false, err
		}
		swaps[i].Old, h.before[swaps[i].Key] = found[0].Version, found[0]
	}
	return h.Store.CompareAndSwap(ctx, swaps...)
}

func TestVerifierFindsAStoreThatIgnoresConflicts(t *testing.T) {
	require.NotEmpty(t, record(t, newOverwritingStore(), func(*fleet) {}).verify())
}
