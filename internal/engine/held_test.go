package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// lockedServer is a server on which another transaction holds the key "locked". Run waits for the lock for a while.
type lockedServer struct {
	server
	locked *atomic.Bool
}

const lockTimeout = 250 * time.Millisecond

// withALock returns a way with such a server, and whether the key is locked.
func withALock() (w way, locked *atomic.Bool) {
	locked = new(atomic.Bool)
	return way{name: "on a server with a lock", open: func(f *fakeStore) storage.Store { return lockedServer{server{fakeStore: f}, locked} }}, locked
}

func (s lockedServer) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		at := slices.Index(b.Keys, "locked")
		if at < 0 {
			s.server.Run(ctx, b)
			continue
		}
		deadline, _ := ctx.Deadline()
		wait := min(time.Until(deadline)-50*time.Millisecond, lockTimeout)
		for end := time.Now().Add(wait); s.locked.Load() && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		if !s.locked.Load() {
			s.server.Run(ctx, b)
			continue
		}
		err := fmt.Errorf("%w: lock timeout", storage.ErrContended)
		s.mu.Lock()
		before := s.records["locked"]
		s.mu.Unlock()
		s.server.Run(ctx, b)
		s.put("locked", string(before.State))
		b.KeyErr = make([]error, len(b.Keys))
		b.KeyErr[at] = &storage.KeyError{Key: "locked", Err: err}
	}
}

func (s lockedServer) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	deadline, _ := ctx.Deadline()
	for s.locked.Load() && swaps[0].Key == "locked" {
		if time.Until(deadline) < 50*time.Millisecond {
			return nil, false, fmt.Errorf("%w: lock timeout", storage.ErrContended)
		}
		time.Sleep(time.Millisecond)
	}
	return s.server.CompareAndSwap(ctx, swaps...)
}

// The other keys get nearly as many decisions as without the lock, and the circuit breaker stays closed.
func TestLockedKeyDoesNotStopOtherKeys(t *testing.T) {
	w, locked := withALock()
	forEachWay(t, []way{w}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.takes = time.Millisecond
		// others decides calls of other keys for some time, and returns how many.
		others := func() (decided int64) {
			end, all, n := time.Now().Add(6*time.Second), sync.WaitGroup{}, new(atomic.Int64)
			for caller := range 8 {
				all.Go(func() {
					for i := 0; time.Now().Before(end); i++ {
						if c := b.decide(newCall(counter(1<<40), fmt.Sprint(caller, i%50))); c.err != nil {
							b.Errorf("another key: %v", c.err)
						}
						n.Add(1)
					}
				})
			}
			all.Wait()
			return n.Load()
		}
		alone, waited := others(), new(atomic.Int64)
		locked.Store(true)
		for range 4 {
			b.group.Go(func() {
				for locked.Load() {
					if c := b.decide(newCall(counter(1<<40), "locked")); c.err != nil {
						assert.ErrorIs(b, c.err, storage.ErrContended)
						assert.ErrorIs(b, c.err, storage.ErrNotApplied)
						waited.Add(1)
					}
				}
			})
		}
		require.Greater(b, float64(others()), 0.8*float64(alone))
		locked.Store(false)
		b.group.Wait()
		require.Positive(b, waited.Load())

		b.allowed(b.decide(newCall(counter(1<<40), "locked")))
		b.inOneBatch(newCall(counter(9), "second"), newCall(counter(1<<40), "locked"), newCall(counter(9), "third"))
		require.Contains(b, strings.Join(b.store.tripsSoFar(), "\n"), "locked third", "a key that was released is sent in batches again")
	})
}

// A denial needs no lock, so it does not show that the lock is free.
func TestDenialLeavesAKeyHeld(t *testing.T) {
	w, locked := withALock()
	forEachWay(t, []way{w}, engine.Options{DenialCacheTTL: -1}, func(b *fixture) {
		b.store.put("locked", "x")
		locked.Store(true)
		require.Equal(b, lockTimeout, b.denied(b.decide(newCall(counter(1), "locked"))).took)
		for range 3 {
			require.NoError(b, b.decide(newCallOf(driver.Peek, nil, "locked")).err)
			require.Zero(b, b.denied(b.decide(newCall(counter(1), "locked"))).took)
		}
		locked.Store(false)
	})
}

// lockedStore is a store on which another transaction holds all keys. CompareAndSwap waits until its context ends.
type lockedStore struct {
	*fakeStore
	locked *atomic.Bool
}

func (s lockedStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.locked.Load() {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return s.fakeStore.CompareAndSwap(ctx, swaps...)
}

// Callers that wait for each other say nothing about the store, even if none of them gets an answer in the end.
func TestCallersBehindAHeldKeyDoNotOpenTheCircuitBreaker(t *testing.T) {
	var locked atomic.Bool
	w := way{name: "swaps", open: func(f *fakeStore) storage.Store { return lockedStore{f, &locked} }}
	forEachWay(t, []way{w}, engine.Options{Timeout: time.Second, OpenAfter: 500 * time.Millisecond}, func(b *fixture) {
		locked.Store(true)
		b.store.takes = 10 * time.Millisecond
		calls := []*call{b.start(newCall(counter(9), "k"))}
		time.Sleep(20 * time.Millisecond)
		b.store.takes = 100 * time.Millisecond // the others have only 20 ms for it after their turn has come
		for range 5 {
			calls = append(calls, b.start(newCall(counter(9), "k")))
		}
		b.group.Wait()
		for _, c := range calls {
			require.Error(b, c.err)
			require.GreaterOrEqual(b, c.took, time.Second)
		}
		locked.Store(false)
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}
