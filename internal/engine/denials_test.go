package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// The cached state would allow a smaller cost or a higher limit.
func TestOnlyDenialsComeFromTheCache(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		b.store.put("k", "xxx")
		big := newCall(counter(4), "k")
		big.Uses[0].Cost = 2
		b.denied(b.decide(big))
		b.store.put("k", "xxxx") // by another process
		b.denied(b.decide(newCall(counter(4), "k")))
		require.Equal(b, "xxxx", b.store.state("k"))
		require.False(b, b.allowed(b.decide(newCall(counter(5), "k"))).cached)
	})
}

// After a charge, the RetryAfter of a cached denial would be too short.
func TestOtherOperationsDropTheCachedDenial(t *testing.T) {
	for op, want := range map[driver.Op]string{driver.Refund: "", driver.Reset: "", driver.Charge: "xx"} {
		forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
			b.store.put("k", "x")
			b.denied(b.decide(newCall(counter(1), "k")))
			require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).cached)
			require.NoError(b, b.decide(newCallOf(op, counter(1), "k")).err)
			c := b.decide(newCall(counter(1), "k"))
			require.Equal(b, []string{want}, c.states)
			require.Equal(b, op != driver.Charge, c.allowed)
		})
	}
}

// The circuit breaker has refused the operation, so nothing was sent.
func TestRefusedOperationKeepsTheCachedDenial(t *testing.T) {
	for _, op := range []driver.Op{driver.Refund, driver.Charge, driver.Reset} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second / 2, DenialCacheTTL: time.Minute}, func(b *fixture) {
			b.store.put("k", "x")
			b.denied(b.decide(newCall(counter(1), "k")))
			b.store.before = always(errDialRefused)
			b.decide(newCall(counter(9), "other"))
			require.Zero(b, b.decide(newCallOf(op, counter(1), "k")).took)
			require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).cached)
		})
	}
}

func TestAllowedRequestDropsTheCachedDenial(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		big := newCall(counter(2), "k")
		big.Uses[0].Cost = 3
		b.denied(b.decide(big))
		b.allowed(b.decide(newCall(counter(2), "k")))
		again := newCall(counter(2), "k")
		again.Uses[0].Cost = 3
		require.Equal(b, []string{"x"}, b.denied(b.decide(again)).states)
	})
}

// The server may have decided it before the reset.
func TestDenialInFlightDuringAResetIsNotCached(t *testing.T) {
	for _, size := range []int{0, 1} {
		forEachWay(t, []way{onServer}, engine.Options{MaxRoundTrips: 2, OpenAfter: -1, DenialCacheSize: size}, func(b *fixture) {
			b.store.put("k", "x")
			slow := make(chan struct{})
			b.store.after = func([]string) error { <-slow; return nil }
			denied := b.start(newCall(counter(1), "k"))
			b.store.after = nil
			require.NoError(b, b.decide(newCallOf(driver.Reset, nil, "k")).err)
			b.denied(b.decide(newCall(counter(0), "other"))) // in a small cache it takes the place of k
			time.Sleep(time.Millisecond)
			close(slow)
			synctest.Wait()
			b.denied(denied)
			b.allowed(b.decide(newCall(counter(1), "k")))
		})
	}
}

func TestCacheNeedsTheStatesOfAllKeys(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		b.allowed(b.decide(newCall(counter(1), "a")))
		b.denied(b.decide(newCall(counter(1), "a")))
		require.False(b, b.denied(b.decide(newCall(counter(1), "a", "b"))).cached, "b is not cached")
		require.True(b, b.denied(b.decide(newCall(counter(1), "a", "b"))).cached)
		require.True(b, b.denied(b.decide(newCall(counter(1), "b", "a"))).cached)
	})
}

// The time on the server's clock is known up to the duration of the round trip. A denial comes from the
// cache only while it is certain. A wait for its RetryAfter is always enough.
func TestCachedDenialIsCertainDespiteTheRoundTrip(t *testing.T) {
	const there, back, pause = 30 * time.Millisecond, 20 * time.Millisecond, 500 * time.Millisecond
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour} {
		forEachWay(t, []way{onServer, inTransaction, onlySwaps}, engine.Options{}, func(b *fixture) {
			b.store.clock = func() time.Time { return time.Now().Add(offset) }
			b.allowed(b.decide(newCall(spacing(pause), "k")))
			taken := time.Now()
			b.store.before = func([]string) error { time.Sleep(there); return nil }
			b.store.after = func([]string) error { time.Sleep(back); return nil }
			first := b.denied(b.decide(newCall(spacing(pause), "k")))
			require.False(b, first.cached)

			for range 4 { // RetryAfter is never too short
				cached := b.denied(b.decide(newCall(spacing(pause), "k")))
				require.True(b, cached.cached)
				require.Zero(b, cached.took)
				left := time.Until(taken.Add(pause))
				require.GreaterOrEqual(b, cached.retry, left)
				require.LessOrEqual(b, cached.retry, left+there+back)
				time.Sleep(50 * time.Millisecond)
			}
			// The latest time that the server can have is ahead of its time by at most the round trip.
			time.Sleep(time.Until(taken.Add(pause - there - back - 1)))
			require.True(b, b.denied(b.decide(newCall(spacing(pause), "k"))).cached)
			time.Sleep(time.Until(taken.Add(pause)))
			c := b.allowed(b.decide(newCall(spacing(pause), "k")))
			require.False(b, c.cached)
		})
	}
}

func TestCachedDenialIsExactWithTheCallersClock(t *testing.T) {
	const pause = 500 * time.Millisecond
	now := time.Unix(1e9, 0)
	forEachWay(t, remoteWays, engine.Options{Clock: func() time.Time { return now }}, func(b *fixture) {
		b.allowed(b.decide(newCall(spacing(pause), "k")))
		b.denied(b.decide(newCall(spacing(pause), "k")))
		now = now.Add(pause - 1)
		time.Sleep(pause + time.Millisecond) // the clock of the machine does not count
		cached := b.denied(b.decide(newCall(spacing(pause), "k")))
		require.True(b, cached.cached)
		require.EqualValues(b, 1, cached.retry)
		now = now.Add(1)
		b.allowed(b.decide(newCall(spacing(pause), "k")))
	})
}

// A batch of denials is one round trip, so it doubles the time for which a denial is cached only once.
func TestDenialsOfOneBatchAreCachedForAShortTimeIfUnitsMayBeGivenBack(t *testing.T) {
	forEachWay(t, []way{onServer}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.store.put("k", "xxxxxxxxxx")
		b.engine.ExpectRefunds()
		b.denied(b.decide(newCall(counter(10), "k")))
		time.Sleep(20 * time.Millisecond)
		var calls []*call
		for i := range 12 {
			c := newCall(counter(10), "k")
			c.Uses[0].Cost = int64(i + 1)
			calls = append(calls, c)
		}
		b.inOneBatch(calls...)
		require.True(b, b.denied(b.decide(newCall(counter(10), "k"))).cached)
		b.store.put("k", "") // another process gives the units back
		time.Sleep(5 * time.Millisecond)
		b.allowed(b.decide(newCall(counter(10), "k")))
	})
}

// A server returns a TTL only for a key that was denied. With the shortest TTL, an evaluator does not take the record for kept.
func TestCachedRecordWithoutATTLHasTheShortest(t *testing.T) {
	forEachWay(t, []way{lying(func(b *driver.Batch) { b.Found[0].TTL = time.Hour })}, engine.Options{}, func(b *fixture) {
		b.store.put("a", "x")
		b.store.put("b", "x")
		b.denied(b.decide(newCall(counter(1), "a", "b", "absent")))
		c := b.denied(b.decide(newCall(counter(1), "a", "b", "absent")))
		require.True(b, c.cached)
		for i, ttl := range []time.Duration{time.Hour, 1, 0} {
			require.Equal(b, ttl, c.Items[i].Found.TTL)
		}
	})
}

// The server could not write the key, so nobody knows its state.
func TestDenialAfterAFailedWriteIsNotCached(t *testing.T) {
	fails := true
	failing := lying(func(batch *driver.Batch) {
		if i := slices.Index(batch.Keys, "k"); fails && i >= 0 {
			batch.KeyErr = make([]error, len(batch.Keys))
			batch.KeyErr[i] = &storage.KeyError{Key: "k", Err: storage.ErrPartialWrite}
		}
	})
	forEachWay(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		calls := []*call{newCall(counter(1), "k"), newCall(counter(1), "k")}
		b.inOneBatch(calls...)
		for _, c := range calls {
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		}
		fails = false
		b.store.remove("k")
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

// After the TTL, one caller asks the store. Meanwhile the cache denies the others, for up to another TTL.
func TestOneCallerRenewsACachedDenial(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{DenialCacheTTL: 800 * time.Millisecond}, func(b *fixture) {
		next := func() *call { return newCall(counter(1), "k") }
		cachedAfter := func(d time.Duration) {
			time.Sleep(d)
			require.True(b, b.denied(b.decide(next())).cached)
		}
		b.store.put("k", "x")
		b.denied(b.decide(next()))
		cachedAfter(800*time.Millisecond - 1)
		time.Sleep(time.Nanosecond)
		b.hold()
		renews := b.waits(next())
		cachedAfter(0)
		cachedAfter(800*time.Millisecond - 1)
		time.Sleep(time.Nanosecond)
		late := b.waits(next())
		b.finish()
		require.False(b, b.denied(renews).cached || b.denied(late).cached)
		cachedAfter(500 * time.Millisecond)
	})
}
