// These tests promise that a call delays or refuses no call that it has no key in common with.
package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/driver"
)

// The requests have been admitted. MaxQueue does not refuse their other attempts.
func TestRetriesAreNotRefused(t *testing.T) {
	forEachWay(t, []way{onServer}, engine.Options{MaxQueue: 1, OpenAfter: -1}, func(b *fixture) {
		b.store.before = forTime(time.Nanosecond, notSent)
		b.hold()
		one, two := b.start(newCall(counter(9), "a")), b.start(newCall(counter(9), "b"))
		require.Len(b, b.store.tripsSoFar(), 2)
		b.releaseAll()
		b.group.Wait()
		require.NoError(b, one.err)
		require.NoError(b, two.err)
	})
}

// They do not fill the queue for other keys.
func TestCancelledCallsBehindAHungOneDoNotCount(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{MaxQueue: 3, Timeout: time.Second}, func(b *fixture) {
		b.store.ignoresContext = true
		b.hold()
		b.start(newCall(counter(9), "a"))
		ctx, cancel := context.WithCancel(background)
		x, y := b.startFor(ctx, newCall(counter(9), "a")), b.startFor(ctx, newCall(counter(9), "a"))
		cancel()
		synctest.Wait()
		require.True(b, x.returned && y.returned)
		other := b.start(newCall(counter(9), "b"))
		b.releaseAll()
		b.group.Wait()
		require.NoError(b, other.err)
	})
}

// A call of the second key does not wait for one of the first.
func TestCancelledCallOfTwoKeysStopsNeither(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.ignoresContext = true
		b.hold()
		b.start(newCall(counter(9), "a"))
		ctx, cancel := context.WithCancel(background)
		b.startFor(ctx, newCall(counter(9), "a", "b"))
		cancel()
		synctest.Wait()
		release := b.letOthersPass()
		other := b.start(newCall(counter(9), "b"))
		time.AfterFunc(5*time.Second, release)
		b.group.Wait()
		require.NoError(b, other.err)
	})
}

// Only the held key waits.
func TestCallThatWaitsForAHeldKeyDoesNotStopItsOtherKeys(t *testing.T) {
	w, s := withLocks()
	forEachWay(t, []way{w}, engine.Options{Timeout: time.Second, DenialCacheTTL: -1}, func(b *fixture) {
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
