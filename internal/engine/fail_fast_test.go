package engine_test

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
)

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

func TestCallThatFailsFastEndsSoonIfTheStoreCannotBeReached(t *testing.T) {
	for name, err := range map[string]error{
		"refused":     errDialRefused,
		"no socket":   dialError(os.NewSyscallError("connect", syscall.ENOENT)),
		"no host":     dialError(errNoHost),
		"lookup only": storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, errNoHost)),
	} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
			b.store.before = always(err)
			c := b.decide(fastCall())
			require.ErrorIs(b, c.err, storage.ErrUnavailable, name)
			require.ErrorIs(b, c.err, storage.ErrNotApplied, name)
			require.Less(b, c.took, 110*time.Millisecond, name)
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

// A dial that timed out does not say that the next one fails, nor does a server that is busy.
func TestCallThatFailsFastRepeatsOtherFailuresUntilTheTimeout(t *testing.T) {
	for _, err := range []error{
		notSent,
		dialError(os.ErrDeadlineExceeded),
		dialError(&net.DNSError{Err: "i/o timeout", Name: "db", IsTimeout: true}),
		storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "read", Err: syscall.ECONNRESET})),
	} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
			b.store.before = always(err)
			require.Equal(b, time.Second, b.decide(fastCall()).took, err)
		})
	}
}

// The first reply was lost, so the call may have been stored.
func TestCallThatFailsFastReportsALostReply(t *testing.T) {
	forEachWay(t, []way{onServer}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.after = func([]string) error {
			b.store.before = func([]string) error { return errDialRefused }
			return errLost
		}
		c := b.decide(fastCall())
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.NotErrorIs(b, c.err, storage.ErrNotApplied)
		require.Less(b, c.took, 110*time.Millisecond)
	})
}

func TestFastFailuresOpenTheBreaker(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { return errDialRefused }
		for began := time.Now(); time.Since(began) < 1200*time.Millisecond; {
			require.Error(b, b.decide(fastCall()).err)
			time.Sleep(time.Millisecond)
		}
		c := b.decide(fastCall())
		require.ErrorContains(b, c.err, "the circuit breaker is open")
		require.Zero(b, c.took)
	})
}
