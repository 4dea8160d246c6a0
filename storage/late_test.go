package storage_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// down is a store that is away for as long as its callers have time, but for a
// few calls.
type down struct{ storage.Store }

func (s down) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	switch rand.IntN(4) {
	case 0:
		<-ctx.Done()
		return nil, false, ctx.Err()
	case 1:
		return nil, false, storage.NotApplied(storage.ErrUnavailable)
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// Calls whose time is over leave groups that go on with others. Each call ends with its
// budget, or a second later on a busy machine.
func TestCallsThatEndWhileOthersGoOn(t *testing.T) {
	const budget, slack = 3 * time.Millisecond, time.Second
	e := storage.NewEngine(down{new(memory.Store)}, storage.EngineOptions{Budget: budget})
	look := func(time.Time, [][]byte, []storage.Change) (bool, error) { return false, nil }
	put := func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
		next[0] = storage.Change{Verb: storage.Put, State: []byte("x")}
		return false, nil
	}
	var longest [8]time.Duration
	var group sync.WaitGroup
	for i := range longest {
		group.Go(func() {
			for range 200 {
				for _, decide := range []storage.Decide{look, put} {
					began := time.Now()
					_, _ = e.Do(context.Background(), []string{"hot"}, decide)
					longest[i] = max(longest[i], time.Since(began))
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a call hangs")
	}
	require.Less(t, slices.Max(longest[:]), budget+slack)
}
