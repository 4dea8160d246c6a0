package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestDecisionIsOneBatchOrALoadAndASwapAndARepeatedDenialIsNone(t *testing.T) {
	trips := map[string][]string{
		onServer.name: {"run k", "run k"}, inTransaction.name: {"transact k", "transact k"}, bySwaps.name: {"load k", "swap k", "load k"},
		onlySwaps.name: {"load k", "swap k", "load k"}, declined.name: {"run k", "load k", "swap k", "run k", "load k"},
	}
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		require.Equal(b, 1, b.allowed(b.decide(newCall(counter(1), "k"))).attempts)
		require.Equal(b, 1, b.denied(b.decide(newCall(counter(1), "k"))).attempts)
		require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).cached)
		require.Equal(b, trips[b.name], b.store.trips)
	})
}

func TestConflictIsDecidedAgainOnTheStoredState(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{}, func(b *fixture) {
		conflict := onTrip(1, errLost)
		b.store.after = func([]string) error {
			if conflict(nil) != nil {
				b.store.put("k", "xx") // by another process, after the load
			}
			return nil
		}
		c := b.allowed(b.decide(newCall(counter(3), "k")))
		require.Equal(b, 2, c.attempts)
		require.Equal(b, "xxx", b.store.state("k"))
	})
}

// The TTL must pass by the clock that decides and by that of the store.
func TestSwapHasATTLAndAPriority(t *testing.T) {
	ahead := func() time.Time { return time.Now().Add(time.Minute) }
	forEachWay(t, []way{bySwaps}, engine.Options{Clock: ahead}, func(b *fixture) {
		b.allowed(b.decide(newCall(counter(9), "k")))
		require.Equal(b, time.Hour+time.Minute, b.store.swaps[0].TTL)
		require.Equal(b, storage.UsedHalf, b.store.swaps[0].Priority)
	})
}

func TestRequestWithoutKeysNeedsNoRoundTrip(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		b.allowed(b.decide(newCall(counter(1))))
		require.Empty(b, b.store.trips)
	})
}

func TestEachAttemptReadsTheClock(t *testing.T) {
	now := time.Unix(100, 0)
	clock := func() time.Time { now = now.Add(1); return now }
	forEachWay(t, remoteWays, engine.Options{Clock: clock}, func(b *fixture) {
		b.store.before = onTrip(2, notSent)
		for range 2 {
			earlier := now
			c := b.allowed(b.decide(newCall(counter(9), "k")))
			require.True(b, c.times[0].After(earlier))
			if n := len(c.times); n > 1 {
				require.True(b, c.times[n-1].After(c.times[0]))
			}
		}
	})
}

// Nothing is stored then. A server is left out, because it has decided before Go evaluates.
func TestErrorOfTheEvaluatorIsReturnedUnchanged(t *testing.T) {
	own := []error{errors.New("own"), context.DeadlineExceeded, storage.ErrUnavailable, storage.ErrContended}
	forEachWay(t, []way{inTransaction, bySwaps, onlySwaps, declined}, engine.Options{}, func(b *fixture) {
		for i, err := range own {
			c := newCall(counter(9), fmt.Sprint("k", i))
			c.before = func() error { return err }
			require.Equal(b, err, b.decide(c).err)
			require.Len(b, c.times, 1)
			require.Zero(b, b.store.state(c.Items[0].Key.Key))
		}
		b.allowed(b.decide(newCall(counter(1), "k0")))
	})
}

func TestUnreadableStateFailsItsRequest(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		b.store.put("k", "damaged")
		for range 2 {
			require.Equal(b, errState, b.decide(newCall(counter(9), "other", "k")).err)
			require.Zero(b, b.store.state("other"))
		}
		c := newCall(counter(9), "other", "k")
		c.Uses[1].Shadow = true
		b.allowed(b.decide(c))
		require.Equal(b, "x", b.store.state("other"))
		c = newCallOf(driver.Peek, counter(9), "other", "k")
		c.before = func() error { return errState } // a server does not read the state for a Peek
		require.Equal(b, errState, b.decide(c).err)
		b.store.remove("k")
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestEndedContextSendsNothing(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		ctx, cancel := context.WithCancel(background)
		cancel()
		for range 2 {
			b.failed(b.decideFor(ctx, newCall(counter(9), "k")), context.Canceled, storage.ErrNotApplied)
		}
		require.Empty(b, b.store.trips)
	})
}

func TestWithoutAClockTheServersClockDecides(t *testing.T) {
	forEachWay(t, []way{onServer, inTransaction, onlySwaps}, engine.Options{}, func(b *fixture) {
		b.store.clock = func() time.Time { return time.Unix(12345, 0) }
		c := b.allowed(b.decide(newCall(counter(1), "k")))
		require.Equal(b, time.Unix(12345, 0), c.times[0])
	})
}
