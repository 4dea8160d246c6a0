package storage_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

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

// Calls whose time is over leave groups that go on with others.
func TestCallsThatEndWhileOthersGoOn(t *testing.T) {
	e := storage.NewEngine(down{new(memory.Store)}, storage.EngineOptions{Budget: 3 * time.Millisecond})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				_, _ = e.Do(context.Background(), []string{"hot"}, func(time.Time, [][]byte, []storage.Change) (bool, error) { return false, nil })
				_, _ = e.Do(context.Background(), []string{"hot"}, func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
					next[0] = storage.Change{Verb: storage.Put, State: []byte("x")}
					return false, nil
				})
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
}
