package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

// server is a database server that can be stopped and paused.
type server interface {
	Stop()
	Start() error
	Pause()
	Resume()
}

// Limiters follow their failure policy during an outage, and recover by themselves.
func TestLimitersFollowTheirFailurePolicy(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		s := servers.Redis(t, "appendonly yes")
		outage(t, s, redisAt(s))
	})
	t.Run("postgres", func(t *testing.T) {
		s := servers.Postgres(t)
		outage(t, s, s.DSN())
	})
}

// outage stops the server, and later pauses it, while limiters of 3 a day use it.
func outage(t *testing.T, s server, address string) {
	t.Parallel()
	var testers []*tester
	for _, policy := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
		c := newTester(t, openStore(t, address), policy)
		require.EqualValues(t, 2, c.pay())
		testers = append(testers, c)
	}
	s.Stop()
	for _, c := range testers {
		c.requireOutage(1, 4)
	}
	require.NoError(t, s.Start())
	for _, c := range testers {
		require.EqualValues(t, 2, c.awaitRecovery(), "nothing was paid during the outage")
		require.EqualValues(t, 1, c.pay())
	}
	s.Pause()
	for _, c := range testers {
		c.requireOutage(5, 5)
	}
	s.Resume()
	for _, c := range testers {
		require.Contains(t, []int64{0, 1}, c.awaitRecovery(), "at most one call was paid")
	}
}

// tester makes calls to a limiter of 3 a day.
type tester struct {
	t        *testing.T
	policy   sluice.FailurePolicy
	limiter  *sluice.Limiter[string]
	longWait *sluice.Limiter[string] // the same limiter with a longTimeout timeout
}

func newTester(t *testing.T, store storage.Store, policy sluice.FailurePolicy) *tester {
	rule := sluice.Rule[string]{Name: "daily", Key: func(key string) string { return key }, Spec: "fixedwindow 3/24h"}
	limiter, err := sluice.Options[string]{Timeout: shortTimeout, OnFailure: policy}.New(store, rule)
	require.NoError(t, err)
	longWait, err := sluice.Options[string]{Timeout: longTimeout}.New(store, rule)
	require.NoError(t, err)
	return &tester{t, policy, limiter, longWait}
}

func (c *tester) key() string { return string(rune('a' + c.policy)) }

// requireOutage makes calls with these numbers during an outage. Each must end within its timeout and follow the failure policy.
func (c *tester) requireOutage(first, last int) {
	c.t.Helper()
	for call := first; call <= last; call++ {
		began := time.Now()
		d, err := c.limiter.Allow(context.Background(), c.key())
		require.Less(c.t, time.Since(began), shortTimeout+slack)
		if failed := errors.Join(err, d.Err); !errors.Is(failed, storage.ErrOutcomeUnknown) { // a paused server may apply it later
			require.ErrorIs(c.t, failed, storage.ErrUnavailable)
		}
		require.Equal(c.t, c.policy == sluice.FailClosed, err != nil)
		require.Equal(c.t, c.policy != sluice.FailClosed, d.Degraded)
		switch c.policy {
		case sluice.FailClosed:
			require.False(c.t, d.Allowed)
		case sluice.FailOpen:
			require.True(c.t, d.Allowed)
		case sluice.FailLocal:
			require.Equal(c.t, call <= 3, d.Allowed, "the limiter in memory")
		}
	}
}

// pay makes a call while the store is available. It returns how many units remain.
func (c *tester) pay() int64 {
	c.t.Helper()
	d, err := c.longWait.Allow(context.Background(), c.key())
	require.NoError(c.t, err)
	require.True(c.t, d.Allowed)
	return d.Remaining
}

// awaitRecovery waits until the limiter reaches the store again. It returns how many units remain.
func (c *tester) awaitRecovery() (remaining int64) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		d, err := c.limiter.Peek(context.Background(), c.key())
		remaining = d.Remaining
		return err == nil && !d.Degraded
	}, longTimeout, time.Millisecond)
	return remaining
}
