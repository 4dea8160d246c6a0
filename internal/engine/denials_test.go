package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/driver"
)

var cachingWays = append(append([]way{}, remoteWays...), callerWays...)

func TestADenialIsLookedUpAgainAfterItsTTL(t *testing.T) {
	each(t, cachingWays, engine.Options{DenialCacheTTL: time.Second}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		b.denied(b.decide(newCall(counter(1), "k")))
		b.store.remove("k") // by another process
		time.Sleep(time.Second - 1)
		require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).how.Cached)
		time.Sleep(1)
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestADenialFromTheCacheDoesNotExtendItsTTL(t *testing.T) {
	each(t, cachingWays, engine.Options{DenialCacheTTL: time.Second}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		b.denied(b.decide(newCall(counter(1), "k")))
		b.store.remove("k")
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).how.Cached)
		}
		time.Sleep(100 * time.Millisecond)
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestNothingIsCachedIfTheTTLIsNegative(t *testing.T) {
	each(t, cachingWays, engine.Options{DenialCacheTTL: -1}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		for range 3 {
			require.False(b, b.denied(b.decide(newCall(counter(1), "k"))).how.Cached)
		}
	})
}

// Nothing is ever allowed from the cache, also if the cached state allows a smaller cost or the
// limit was raised.
func TestOnlyDenialsComeFromTheCache(t *testing.T) {
	each(t, cachingWays, engine.Options{}, func(b *bench) {
		b.store.put("k", "xxx")
		big := newCall(counter(4), "k")
		big.Uses[0].Cost = 2
		b.denied(b.decide(big))
		b.store.put("k", "xxxx") // by another process
		b.denied(b.decide(newCall(counter(4), "k")))
		require.Equal(b, "xxxx", b.store.state("k"))
		require.False(b, b.allowed(b.decide(newCall(counter(5), "k"))).how.Cached)
	})
}

func TestAnOwnRefundOrResetDropsTheCachedDenial(t *testing.T) {
	for _, op := range []driver.Op{driver.Refund, driver.Reset} {
		each(t, cachingWays, engine.Options{}, func(b *bench) {
			b.allowed(b.decide(newCall(counter(1), "k")))
			b.denied(b.decide(newCall(counter(1), "k")))
			require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).how.Cached)
			require.NoError(b, b.decide(newCallOf(op, counter(1), "k")).err)
			b.allowed(b.decide(newCall(counter(1), "k")))
		})
	}
}

// What this process takes is seen at once: a cached denial would tell a wait that is too short.
func TestAnOwnChargeDropsTheCachedDenial(t *testing.T) {
	each(t, cachingWays, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		b.denied(b.decide(newCall(counter(1), "k")))
		require.NoError(b, b.decide(newCallOf(driver.Charge, counter(1), "k")).err)
		require.Equal(b, []string{"xx"}, b.denied(b.decide(newCall(counter(1), "k"))).states)
	})
}

func TestAnOwnAllowanceDropsTheCachedDenial(t *testing.T) {
	each(t, cachingWays, engine.Options{}, func(b *bench) {
		big := newCall(counter(2), "k")
		big.Uses[0].Cost = 3
		b.denied(b.decide(big))
		b.allowed(b.decide(newCall(counter(2), "k")))
		again := newCall(counter(2), "k")
		again.Uses[0].Cost = 3
		require.Equal(b, []string{"x"}, b.denied(b.decide(again)).states)
	})
}

// A denial whose reply comes after a reset is not cached: it may be of the time before.
func TestADenialInFlightDuringAResetIsNotCached(t *testing.T) {
	each(t, []way{onServer, bySwaps, bySwapsClock}, engine.Options{MaxRoundTrips: 2, OpenAfter: -1}, func(b *bench) {
		b.store.put("k", "x")
		slow := make(chan struct{})
		b.store.after = func([]string) error { <-slow; return nil }
		denied := b.start(newCall(counter(1), "k"))
		b.store.after = nil
		require.False(b, denied.returned)
		require.NoError(b, b.decide(newCallOf(driver.Reset, nil, "k")).err)
		time.Sleep(time.Millisecond)
		close(slow)
		synctest.Wait()
		b.denied(denied)
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestACachedDenialOfAllKeysIsNeeded(t *testing.T) {
	each(t, cachingWays, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "a")))
		b.denied(b.decide(newCall(counter(1), "a")))
		require.False(b, b.denied(b.decide(newCall(counter(1), "a", "b"))).how.Cached, "b is not known")
		require.True(b, b.denied(b.decide(newCall(counter(1), "a", "b"))).how.Cached)
		require.True(b, b.denied(b.decide(newCall(counter(1), "b", "a"))).how.Cached)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	for _, size := range []int{1, 100, 1000, 5000} {
		each(t, []way{onServer}, engine.Options{DenialCacheSize: size}, func(b *bench) {
			for i := range 20_000 {
				b.denied(b.decide(newCall(counter(0), fmt.Sprint(i))))
			}
			require.LessOrEqual(b, b.engine.CachedDenials(), size+511, "a block more")
			require.GreaterOrEqual(b, b.engine.CachedDenials(), size*9/10)
			require.True(b, b.denied(b.decide(newCall(counter(0), "19999"))).how.Cached, "the last one")
		})
	}
}

// The server's clock is known as an interval, by the time that the round trip took. A denial
// comes from the cache only while it is certain, and its wait is always long enough.
func TestACachedDenialIsExactAtTheEndsOfTheInterval(t *testing.T) {
	const there, back, pause = 30 * time.Millisecond, 20 * time.Millisecond, 500 * time.Millisecond
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour} {
		each(t, []way{onServer, inTransaction, bySwapsClock}, engine.Options{}, func(b *bench) {
			b.store.clock = func() time.Time { return time.Now().Add(offset) }
			b.allowed(b.decide(newCall(spacing(pause), "k")))
			taken := time.Now()
			b.store.before = func([]string) error { time.Sleep(there); return nil }
			b.store.after = func([]string) error { time.Sleep(back); return nil }
			first := b.denied(b.decide(newCall(spacing(pause), "k")))
			require.False(b, first.how.Cached)

			for range 4 { // RetryAfter is never too short
				cached := b.denied(b.decide(newCall(spacing(pause), "k")))
				require.True(b, cached.how.Cached)
				require.Zero(b, cached.took)
				left := time.Until(taken.Add(pause))
				require.GreaterOrEqual(b, cached.retry, left)
				require.LessOrEqual(b, cached.retry, left+there+back)
				time.Sleep(50 * time.Millisecond)
			}
			// The latest time that the server can have is ahead of its time by at most the round trip.
			time.Sleep(time.Until(taken.Add(pause - there - back - 1)))
			require.True(b, b.denied(b.decide(newCall(spacing(pause), "k"))).how.Cached)
			time.Sleep(time.Until(taken.Add(pause)))
			c := b.allowed(b.decide(newCall(spacing(pause), "k")))
			require.False(b, c.how.Cached)
		})
	}
}

// A caller who waits as long as it was told is allowed, if nobody was faster.
func TestWaitingForTheRetryOfACachedDenialIsEnough(t *testing.T) {
	each(t, []way{onServer, inTransaction, bySwapsClock}, engine.Options{}, func(b *bench) {
		b.store.clock = func() time.Time { return time.Now().Add(time.Hour) }
		b.store.before = func([]string) error { time.Sleep(7 * time.Millisecond); return nil }
		b.store.after = func([]string) error { time.Sleep(3 * time.Millisecond); return nil }
		for range 10 {
			b.allowed(b.decide(newCall(spacing(300*time.Millisecond), "k")))
			b.denied(b.decide(newCall(spacing(300*time.Millisecond), "k")))
			time.Sleep(20 * time.Millisecond)
			cached := b.denied(b.decide(newCall(spacing(300*time.Millisecond), "k")))
			require.True(b, cached.how.Cached)
			time.Sleep(cached.retry)
		}
	})
}

// With a clock of the caller there is no interval.
func TestWithAClockACachedDenialIsExact(t *testing.T) {
	const pause = 500 * time.Millisecond
	now := time.Unix(1e9, 0)
	each(t, cachingWays, engine.Options{Clock: func() time.Time { return now }}, func(b *bench) {
		b.allowed(b.decide(newCall(spacing(pause), "k")))
		b.denied(b.decide(newCall(spacing(pause), "k")))
		now = now.Add(pause - 1)
		cached := b.denied(b.decide(newCall(spacing(pause), "k")))
		require.True(b, cached.how.Cached)
		require.EqualValues(b, 1, cached.retry)
		now = now.Add(1)
		b.allowed(b.decide(newCall(spacing(pause), "k")))
	})
}

// An error on a cached state is looked up: the state may be another one by now.
func TestAnErrorOnACachedStateIsLookedUp(t *testing.T) {
	each(t, cachingWays, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		b.denied(b.decide(newCall(counter(1), "k")))
		c, n := newCall(counter(1), "k"), 0
		c.before = func() error {
			if n++; n == 1 {
				return errState
			}
			return nil
		}
		require.False(b, b.denied(b.decide(c)).how.Cached)
	})
}
