package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
)

// outage is how a store fails.
type outage int32

const (
	works outage = iota
	refuses
	silent
)

// failing lets the store fail in a way that the returned variable says.
func (b *bench) failing() *atomic.Int32 {
	how := new(atomic.Int32)
	b.store.before = func([]string) error {
		switch outage(how.Load()) {
		case refuses:
			return storage.NotApplied(errRefused)
		case silent:
			time.Sleep(time.Second)
			return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, context.DeadlineExceeded))
		}
		time.Sleep(time.Millisecond)
		return nil
	}
	return how
}

// eachOutage runs a test for every way and outage, when the circuit breaker is open.
func eachOutage(t *testing.T, test func(b *bench, how *atomic.Int32)) {
	for _, kind := range []outage{refuses, silent} {
		each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *bench) {
			how := b.failing()
			b.allowed(b.decide(newCall(counter(9), "k")))
			how.Store(int32(kind))
			for range 2 { // on the caller's goroutine the first may end with the timeout
				require.Error(b, b.decide(newCall(counter(9), "k")).err)
			}
			synctest.Wait() // the probe has begun
			test(b, how)
			how.Store(int32(works))
		})
	}
}

func TestInALongOutageNobodyWaits(t *testing.T) {
	eachOutage(t, func(b *bench, how *atomic.Int32) {
		for range 50 {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			require.ErrorContains(b, c.err, "the circuit breaker is open, because the store has failed for ")
			require.Zero(b, c.took)
			time.Sleep(77 * time.Millisecond)
		}
	})
}

// One that calls again and again pays once for an outage.
func TestALoneClientWaitsOnce(t *testing.T) {
	for _, kind := range []outage{refuses, silent} {
		each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *bench) {
			b.failing().Store(int32(kind))
			waited := 0
			for range 8 {
				c := b.decide(newCall(counter(9), "k"))
				require.Error(b, c.err)
				if c.took > 0 {
					waited++
				}
				time.Sleep(time.Second)
			}
			require.Equal(b, 1, waited)
		})
	}
}

func TestTheStoreIsProbedByOneAtATime(t *testing.T) {
	eachOutage(t, func(b *bench, how *atomic.Int32) {
		how.Store(int32(silent))
		time.Sleep(2 * time.Second) // a probe in flight ends
		b.store.mu.Lock()
		b.store.trips = nil
		b.store.mu.Unlock()
		for range 20 { // while the probe is silent
			require.Zero(b, b.decide(newCall(counter(9), "k")).took)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(b, []string{"swap k"}, b.store.tripsSoFar())
	})
}

func TestAProbeChangesNothing(t *testing.T) {
	for _, key := range []string{"k", "absent"} {
		eachOutage(t, func(b *bench, how *atomic.Int32) {
			before := b.store.records["k"]
			time.Sleep(2 * time.Second)
			how.Store(int32(works))
			b.decide(newCall(counter(9), key))
			time.Sleep(50 * time.Millisecond)
			require.Contains(b, b.store.tripsSoFar(), "swap "+key)
			require.Equal(b, before, b.store.records["k"])
			require.NotContains(b, b.store.records, "absent")
		})
	}
}

func TestTheBreakerClosesWhenAProbeSucceeds(t *testing.T) {
	eachOutage(t, func(b *bench, how *atomic.Int32) {
		how.Store(int32(works))
		time.Sleep(2 * time.Second)
		require.Error(b, b.decide(newCall(counter(9), "k")).err, "this starts the probe")
		time.Sleep(2 * time.Millisecond)
		for range 3 {
			b.allowed(b.decide(newCall(counter(9), "k")))
		}
	})
}

// After a probe has succeeded, the next failure opens the breaker at once.
func TestAFailureAfterAProbeOpensTheBreakerAtOnce(t *testing.T) {
	eachOutage(t, func(b *bench, how *atomic.Int32) {
		how.Store(int32(works))
		time.Sleep(2 * time.Second)
		require.Error(b, b.decide(newCall(counter(9), "k")).err, "this starts the probe")
		time.Sleep(2 * time.Millisecond)
		how.Store(int32(refuses))
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		require.Error(b, b.decideFor(ctx, newCall(counter(9), "k")).err)
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorContains(b, c.err, "the circuit breaker is open")
		require.Zero(b, c.took)
	})
}

func TestASuccessAfterAProbeClosesTheBreaker(t *testing.T) {
	eachOutage(t, func(b *bench, how *atomic.Int32) {
		how.Store(int32(works))
		time.Sleep(2 * time.Second)
		require.Error(b, b.decide(newCall(counter(9), "k")).err, "this starts the probe")
		time.Sleep(2 * time.Millisecond)
		b.allowed(b.decide(newCall(counter(9), "k")))
		how.Store(int32(refuses))
		began := time.Now()
		b.start(newCall(counter(9), "k"))
		time.Sleep(500 * time.Millisecond)
		how.Store(int32(works))
		c := b.decide(newCall(counter(9), "k"))
		b.allowed(c)
		require.Less(b, time.Since(began), time.Second)
	})
}

func TestCachedDenialsAreAnsweredInAnOutage(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: 100 * time.Millisecond, DenialCacheTTL: time.Minute}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "denied")))
		b.denied(b.decide(newCall(counter(1), "denied")))
		b.store.before = func([]string) error { return storage.NotApplied(errRefused) }
		require.Error(b, b.decide(newCall(counter(1), "other")).err)
		require.True(b, b.denied(b.decide(newCall(counter(1), "denied"))).how.Cached)
	})
}

// A store that is asked seldom has not failed from the one time to the other.
func TestFailuresOfLongAgoSayNothing(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: 500 * time.Millisecond, OpenAfter: time.Second}, func(b *bench) {
		b.store.before = func([]string) error { return storage.NotApplied(errRefused) }
		for range 5 {
			c := b.decide(newCall(counter(9), "k"))
			require.Equal(b, 500*time.Millisecond, c.took, "the breaker is closed")
			time.Sleep(time.Minute)
		}
	})
}

func TestABreakerThatNeverOpens(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *bench) {
		b.store.before = func([]string) error { return storage.NotApplied(errRefused) }
		for range 5 {
			require.Equal(b, time.Second, b.decide(newCall(counter(9), "k")).took)
		}
	})
}

func TestContentionDoesNotOpenTheBreaker(t *testing.T) {
	late := fmt.Errorf("%w: %w", storage.ErrContended, context.DeadlineExceeded)
	for _, answer := range []error{storage.ErrContended, late} {
		each(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *bench) {
			b.store.before = func([]string) error { return answer }
			for range 4 {
				require.ErrorIs(b, b.decide(newCall(counter(9), "k")).err, storage.ErrContended)
			}
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(9), "k")))
		})
	}
}

func TestAFaultThatStaysDoesNotOpenTheBreaker(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *bench) {
		broken := storage.NotApplied(errors.New("no such table"))
		b.store.before = func([]string) error { time.Sleep(400 * time.Millisecond); return broken }
		for range 6 {
			require.Equal(b, broken, b.decide(newCall(counter(9), "k")).err)
		}
	})
}

// Callers whose deadlines are shorter than the store's answers fail, but no reason to refuse others.
func TestShortDeadlinesDoNotOpenTheBreaker(t *testing.T) {
	for _, warm := range []bool{false, true} {
		each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *bench) {
			if warm {
				b.warm()
			}
			b.store.takes = 50 * time.Millisecond
			for range 60 {
				ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
				require.Error(b, b.decideFor(ctx, newCall(counter(1000), "k")).err)
				cancel()
				time.Sleep(10 * time.Millisecond)
			}
			c := b.decide(newCall(counter(9), "other"))
			b.allowed(c)
		})
	}
}

// If all callers have less time than the timeout, each gives up before a silent store has failed.
func TestASilentStoreOpensTheBreakerIfAllDeadlinesAreShort(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *bench) {
		b.store.takes = time.Minute
		hasty := func() *call {
			ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
			defer cancel()
			return b.decideFor(ctx, newCall(counter(9), "k"))
		}
		for range 8 { // for a second, and for as long as the probe takes
			hasty()
		}
		c := hasty()
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.Zero(b, c.took)
		time.Sleep(time.Minute)
		synctest.Wait() // no round trip is under way
		b.store.takes = time.Millisecond
		require.Eventually(b, func() bool { return hasty().err == nil }, 2*time.Second, 100*time.Millisecond)
	})
}

// Thousands of callers in an outage wait together, and then nobody does.
func TestManyCallersInAnOutageWaitOnce(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *bench) {
		b.failing().Store(int32(silent))
		var waited atomic.Int64
		var group sync.WaitGroup
		for range 500 {
			group.Go(func() {
				for range 5 {
					if b.decide(newCall(counter(9), "k")).took > 0 {
						waited.Add(1)
					}
				}
			})
		}
		group.Wait()
		require.LessOrEqual(b, waited.Load(), int64(500))
		synctest.Wait()
	})
}
