package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// outage is how a store fails.
type outage int32

const (
	works outage = iota
	refuses
	hangs
)

// failing makes the store fail as the returned variable says.
func (b *fixture) failing() *atomic.Int32 {
	how := new(atomic.Int32)
	b.store.before = func([]string) error {
		switch outage(how.Load()) {
		case refuses:
			return errDialRefused
		case hangs:
			time.Sleep(time.Second)
			return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, context.DeadlineExceeded))
		}
		time.Sleep(time.Millisecond)
		return nil
	}
	return how
}

// Both calls end at the same instant. Which one ends first differs from run to run.
func TestOpenBreakerReportsWhyTheStoreFails(t *testing.T) {
	for range 20 {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
			b.failing().Store(int32(refuses))
			b.start(newCall(counter(9), "other"))
			require.ErrorIs(b, b.decide(newCall(counter(9), "k")).err, errDialRefused)
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, "the circuit breaker is open")
			require.ErrorIs(b, c.err, errDialRefused)
		})
	}
}

func TestSingleClientWaitsOncePerOutage(t *testing.T) {
	for _, kind := range []outage{refuses, hangs} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
			b.failing().Store(int32(kind))
			waited := 0
			for range 8 {
				if c := b.decide(newCall(counter(9), "k")); c.took > 0 {
					require.Error(b, c.err)
					waited++
				} else {
					b.failed(c, storage.ErrUnavailable, storage.ErrNotApplied)
					require.ErrorContains(b, c.err, "the circuit breaker is open, because the store has failed for ")
				}
				time.Sleep(time.Second)
			}
			require.Equal(b, 1, waited)
		})
	}
}

// The store answers a Peek and a denial, like a read-only replica.
func TestStoreThatRefusesWritesOpensTheBreaker(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second, DenialCacheTTL: -1}, func(b *fixture) {
		b.store.before = func(keys []string) error {
			if kind := b.store.lastKind(); kind == "load" || kind != "swap" && keys[0] == "full" {
				return nil
			}
			return notSent
		}
		waited := 0
		for range 8 {
			b.decide(newCall(counter(0), "full"))
			b.decide(newCallOf(driver.Peek, counter(9), "k"))
			if c := b.decide(newCall(counter(9), "k")); c.took > 0 {
				waited++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(b, waited, 2, "the second call may begin just before the breaker opens")
	})
}

// Calls arrive all the time, so only a probe can close the breaker.
func TestProbeChangesNothingAndEndsTheOutage(t *testing.T) {
	for _, key := range []string{"k", "absent"} {
		for _, kind := range []outage{refuses, hangs} {
			forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
				how := b.failing()
				b.allowed(b.decide(newCall(counter(9), "k")))
				before := b.store.records["k"]
				how.Store(int32(kind))
				for range 30 {
					require.Error(b, b.decide(newCall(counter(9), key)).err)
					time.Sleep(100 * time.Millisecond)
				}
				how.Store(int32(works))
				for range 12 { // the last probe may still hang
					b.decide(newCall(counter(0), key))
					time.Sleep(100 * time.Millisecond)
				}
				require.Contains(b, b.store.tripsSoFar(), "swap "+key)
				require.Equal(b, before, b.store.records["k"])
				require.NotContains(b, b.store.records, "absent")
				b.allowed(b.decide(newCall(counter(9), "k")))
			})
		}
	}
}

func TestContentionDoesNotOpenTheBreaker(t *testing.T) {
	late := fmt.Errorf("%w: %w", storage.ErrContended, context.DeadlineExceeded)
	for _, answer := range []error{storage.ErrContended, late} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
			b.store.before = always(answer)
			for range 4 {
				require.ErrorIs(b, b.decide(newCall(counter(9), "k")).err, storage.ErrContended)
			}
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(9), "k")))
		})
	}
}

func TestPermanentErrorIsReturnedAtOnceAndDoesNotOpenTheBreaker(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		broken := storage.NotApplied(errors.New("no such table"))
		b.store.before = func([]string) error { time.Sleep(400 * time.Millisecond); return broken }
		for range 6 {
			c := b.decide(newCall(counter(9), "k"))
			require.Equal(b, broken, c.err)
			require.Equal(b, 400*time.Millisecond, c.took)
		}
		require.Len(b, b.store.trips, 6)
	})
}

// The deadlines are shorter than a round trip.
func TestShortDeadlinesDoNotOpenTheBreaker(t *testing.T) {
	coldAndWarm(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
		b.store.takes = 50 * time.Millisecond
		for range 60 {
			ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
			require.Error(b, b.decideFor(ctx, newCall(counter(1000), "k")).err)
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		b.allowed(b.decide(newCall(counter(9), "other")))
	})
}

// All deadlines are shorter than the timeout.
func TestHangingStoreOpensTheBreakerDespiteShortDeadlines(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
		b.store.takes = time.Minute
		shortCall := func() *call {
			ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
			defer cancel()
			return b.decideFor(ctx, newCall(counter(9), "k"))
		}
		for range 8 { // for a second and the time of a probe
			shortCall()
		}
		c := shortCall()
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.Zero(b, c.took)
		time.Sleep(time.Minute)
		synctest.Wait() // no round trip is in flight
		b.store.takes = time.Millisecond
		require.Eventually(b, func() bool { return shortCall().err == nil }, 2*time.Second, 100*time.Millisecond)
	})
}

// dialError returns the error of a store that cannot connect.
func dialError(cause error) error {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: cause}
	return storage.NotApplied(fmt.Errorf("store: %w: %w", storage.ErrUnavailable, dial))
}

var (
	errDialRefused = dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	errNoHost      = &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}
)

// fastCall returns a call that fails fast.
func fastCall() *call {
	c := newCall(counter(9), "k")
	c.FailFast = true
	return c
}

// A dial that timed out does not say that the next one fails, nor does a server that is busy.
func TestCallThatFailsFastEndsSoonIfTheStoreCannotBeReached(t *testing.T) {
	for err, soon := range map[error]bool{
		errDialRefused: true,
		dialError(os.NewSyscallError("connect", syscall.ENOENT)): true,
		dialError(errNoHost): true,
		storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, errNoHost)): true,
		notSent:                           false,
		dialError(os.ErrDeadlineExceeded): false,
		dialError(&net.DNSError{Err: "i/o timeout", Name: "db", IsTimeout: true}):                                           false,
		storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "read", Err: syscall.ECONNRESET})): false,
	} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
			b.store.before = always(err)
			c := b.failed(b.decide(fastCall()), storage.ErrUnavailable, storage.ErrNotApplied)
			if !soon {
				require.Equal(b, time.Second, c.took, err)
				return
			}
			require.Less(b, c.took, 110*time.Millisecond, err)
			require.Greater(b, len(b.store.tripsSoFar()), 3, "it survives a quick restart")
			require.Equal(b, time.Second, b.decide(newCall(counter(9), "k")).took, "other calls go on until the timeout")
		})
	}
}

// The client has dialed several times already.
func TestCallThatFailsFastDoesNotRepeatASlowFailure(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { time.Sleep(400 * time.Millisecond); return errDialRefused }
		require.Equal(b, 400*time.Millisecond, b.decide(fastCall()).took)
		require.Len(b, b.store.tripsSoFar(), 1)
	})
}

// The first reply was lost, so the call may have been stored.
func TestCallThatFailsFastReportsALostReply(t *testing.T) {
	forEachWay(t, []way{onServer}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.after = func([]string) error {
			b.store.before = func([]string) error { return errDialRefused }
			return errLost
		}
		c := b.failed(b.decide(fastCall()), storage.ErrOutcomeUnknown, storage.ErrUnavailable)
		require.Less(b, c.took, 110*time.Millisecond)
	})
}

// A full disk refuses the write of a call, but not a probe, which writes nothing.
func TestCallThatFailsFastEndsIfTheBreakerIsOpen(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			if b.store.lastKind() == "swap" {
				return nil
			}
			return notSent
		}
		require.Equal(b, time.Second, b.decide(fastCall()).took)
		for range 10 {
			c := b.failed(b.decide(fastCall()), storage.ErrUnavailable, storage.ErrNotApplied)
			require.Zero(b, c.took)
			time.Sleep(77 * time.Millisecond)
		}
	})
}
