// These tests promise:
//
//   - MaxQueue bounds the requests that wait to be sent to a server, whatever they wait for.
//   - A call delays or refuses no call that has none of its keys.
package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// refused starts a call, and requires that it is refused.
func (b *fixture) refused(c *call) {
	b.Helper()
	b.failed(b.start(c), storage.ErrOverloaded, storage.ErrUnavailable, storage.ErrNotApplied)
	require.Zero(b, c.took)
}

// waits starts a call, and requires that it does not return yet.
func (b *fixture) waits(c *call) *call {
	b.Helper()
	require.False(b, b.start(c).returned, "%v", c.err)
	return c
}

func TestPeeksAndSwapsOfDifferentKeysDoNotWait(t *testing.T) {
	different, same := []string{"a", "b", "c", "d", "e"}, []string{"k", "k", "k", "k", "k"}
	for op, keys := range map[driver.Op][]string{driver.Allow: different, driver.Reset: different, driver.Peek: same} {
		forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{MaxQueue: 1}, func(b *fixture) {
			b.hold()
			for _, key := range keys {
				b.waits(newCallOf(op, counter(9), key))
			}
			require.Len(b, b.store.tripsSoFar(), 5)
			b.finish()
		})
	}
}

// All that wait for one server count together, and those that wait for another server do not.
func TestAllKindsOfWaitsCountTogether(t *testing.T) {
	forEachWay(t, []way{onShards}, engine.Options{MaxQueue: 3, MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.waits(newCall(counter(9), "a0")) // is in flight
		done := make(chan struct{})
		await := func() error { return b.engine.Await(background, done, newCall(counter(9), "a0").Items) }
		b.group.Go(func() { assert.NoError(b, await()) })
		synctest.Wait()
		b.waits(newCall(counter(9), "a1"))          // waits for a batch
		b.waits(newCallOf(driver.Reset, nil, "a2")) // swaps
		b.waits(newCallOf(driver.Reset, nil, "a2")) // waits for that
		require.ErrorIs(b, await(), storage.ErrOverloaded)
		close(done)
		synctest.Wait()
		require.NoError(b, await())
		b.waits(newCall(counter(9), "a0"))                  // waits for a batch
		b.refused(newCall(counter(9), "a3"))                // would wait for a batch
		b.refused(newCallOf(driver.Reset, nil, "a2"))       // would wait for the swaps
		b.refused(newCallOf(driver.Peek, counter(9), "a4")) // a failed swap would wait
		other := b.waits(newCall(counter(9), "b1"))
		b.finish(other)
		b.allowed(b.decide(newCall(counter(9), "a1")))
	})
}

// The call waits for the lock of one key, and holds the lock of another.
func TestRefusedSwapReleasesItsLocks(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{MaxQueue: 1, Timeout: time.Second}, func(b *fixture) {
		b.hold()
		b.waits(newCall(counter(9), "z"))
		b.waits(newCall(counter(9), "z"))
		b.refused(newCall(counter(9), "a", "z"))
		b.finish()
		b.allowed(b.decide(newCall(counter(9), "a", "z")))
	})
}

// A failed batch gives its place in flight to the waiting requests.
func TestFailedRequestsCountWhileTheyWait(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{MaxRoundTrips: 1, MaxQueue: 5, OpenAfter: -1, Timeout: time.Second}, func(b *fixture) {
		b.store.before = always(notSent)
		b.hold()
		for i := range 5 {
			b.waits(newCall(counter(9), fmt.Sprint(i)))
		}
		b.releaseAll()
		b.refused(newCall(counter(9), "k"))
		b.group.Wait()
	})
}

// The calls of a batch do not wait, so there can be more of them than MaxQueue. They come back to wait for a lock, or for each other.
func TestCallsThatMustBeSentAgainAreNotRefused(t *testing.T) {
	locked, s := newLocked()
	forEachWay(t, []way{locked, declined}, engine.Options{MaxQueue: 5, MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
		s.locks.lock("k")
		b.hold()
		b.waits(newCall(counter(9), "first"))
		var calls []*call
		for range 5 {
			calls = append(calls, b.waits(newCall(counter(9), "k")))
		}
		b.store.takes = time.Millisecond
		b.releaseAll() // the calls are in flight
		for range 3 {
			calls = append(calls, b.start(newCall(counter(9), "k")))
		}
		time.Sleep(400 * time.Millisecond)
		s.locks.unlock("k")
		b.finish(calls...)
	})
}

// They wait for each other, because one key at a time is probed.
func TestCallsOfLockedKeysCount(t *testing.T) {
	w, s := newLocked()
	forEachWay(t, []way{w}, engine.Options{MaxQueue: 2, Timeout: time.Second}, func(b *fixture) {
		keys := []string{"a", "b", "c", "d"}
		s.locks.lock(keys...)
		for _, key := range keys[:3] {
			b.start(newCall(counter(9), key))
		}
		b.group.Wait() // the keys are known to be locked
		for _, key := range keys[:3] {
			b.start(newCall(counter(9), key))
		}
		b.refused(newCall(counter(9), "d"))
		b.group.Wait()
		s.locks.unlock(keys...)
	})
}

// They do not fill the queue, and a call of their other key does not wait for the hung one.
func TestCancelledCallsBehindAHungOneStopNoOthers(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{MaxQueue: 2, Timeout: time.Second}, func(b *fixture) {
		b.store.ignoresContext = true
		b.hold()
		b.start(newCall(counter(9), "a"))
		ctx, cancel := context.WithCancel(background)
		x, y := b.startFor(ctx, newCall(counter(9), "a")), b.startFor(ctx, newCall(counter(9), "a", "b"))
		cancel()
		synctest.Wait()
		require.True(b, x.returned && y.returned)
		release := b.letOthersPass()
		require.Zero(b, b.allowed(b.decide(newCall(counter(9), "b"))).took)
		release()
	})
}

// Only the held key waits.
func TestCallThatWaitsForAHeldKeyDoesNotStopItsOtherKeys(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		s.locks.lock("locked")
		b.start(newCall(counter(9), "locked")) // finds the lock, and then probes the key
		time.Sleep(300 * time.Millisecond)
		b.start(newCall(counter(9), "locked", "z")) // waits for its turn to probe
		reset := b.start(newCallOf(driver.Reset, nil, "z"))
		b.group.Wait()
		s.locks.unlock("locked")
		require.NoError(b, reset.err)
		require.Less(b, reset.took, 100*time.Millisecond)
	})
}
