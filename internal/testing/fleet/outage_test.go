package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
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
	for name, begin := range map[string]func(*testing.T) (server, string){
		"redis": func(t *testing.T) (server, string) {
			s := servers.Redis(t, "appendonly yes")
			return s, redisAt(s)
		},
		"postgres": func(t *testing.T) (server, string) {
			s := servers.Postgres(t)
			return s, s.DSN()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, address := begin(t)
			var testers []*tester
			for _, policy := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
				testers = append(testers, newTester(t, openStore(t, address), policy))
			}
			outage(t, s, testers)
		})
	}
}

// outage stops the server, and later pauses it, while limiters of 3 a day use it.
func outage(t *testing.T, s server, testers []*tester) {
	for _, c := range testers {
		require.EqualValues(t, 2, c.pay())
	}
	s.Stop()
	for _, c := range testers {
		for range 4 {
			d, err := c.allow()
			c.requireOutage(d, err)
			require.ErrorIs(t, errors.Join(err, d.Err), storage.ErrUnavailable)
		}
	}
	require.NoError(t, s.Start())
	for _, c := range testers {
		require.EqualValues(t, 2, c.awaitRecovery(), "nothing was paid during the outage")
		require.EqualValues(t, 1, c.pay())
	}
	s.Pause()
	for _, c := range testers {
		d, err := c.allow()
		require.Error(t, errors.Join(err, d.Err))
		require.Equal(t, c.policy != sluice.FailClosed, d.Degraded)
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
	local    int                     // calls during the outage
}

func newTester(t *testing.T, store storage.Store, policy sluice.FailurePolicy) *tester {
	limit, err := compose.ParsePolicy("fixedwindow 3/24h")
	require.NoError(t, err)
	rule := sluice.Rule[string]{Name: "daily", Key: func(key string) string { return key }, Policy: limit}
	c := &tester{t: t, policy: policy}
	c.limiter, err = sluice.Options[string]{Timeout: shortTimeout, OnFailure: policy}.New(store, rule)
	require.NoError(t, err)
	c.longWait, err = sluice.Options[string]{Timeout: longTimeout}.New(store, rule)
	require.NoError(t, err)
	return c
}

// allow makes a call, which must end within its timeout.
func (c *tester) allow() (d sluice.Decision, err error) {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		d, err = c.limiter.Allow(context.Background(), c.key())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(shortTimeout + slack):
		c.t.Fatalf("a call with a timeout of %v has not ended after %v", shortTimeout, shortTimeout+slack)
	}
	return d, err
}

func (c *tester) key() string { return string(rune('a' + c.policy)) }

// pay makes a call while the store is available. It returns how many units remain.
func (c *tester) pay() int64 {
	c.t.Helper()
	d, err := c.longWait.Allow(context.Background(), c.key())
	require.NoError(c.t, err)
	require.True(c.t, d.Allowed)
	return d.Remaining
}

// requireOutage checks that a decision during the outage follows the failure policy.
func (c *tester) requireOutage(d sluice.Decision, err error) {
	c.t.Helper()
	switch c.policy {
	case sluice.FailClosed:
		require.Error(c.t, err)
		require.False(c.t, d.Allowed)
		require.False(c.t, d.Degraded)
	case sluice.FailOpen:
		require.NoError(c.t, err)
		require.True(c.t, d.Allowed)
		require.True(c.t, d.Degraded)
	case sluice.FailLocal:
		require.NoError(c.t, err)
		require.True(c.t, d.Degraded)
		require.Equal(c.t, c.local < 3, d.Allowed, "the limiter in memory")
		c.local++
	}
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
