package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// server is a database that can be had or not.
type server interface {
	Stop()
	Start() error
	Pause()
	Resume()
}

// What each failure policy makes of a store that is not there, and that none
// needs to be told when it is back.
func TestOutage(t *testing.T) {
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
			s, place := begin(t)
			for _, policy := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
				outage(t, s, newCustomer(t, openStore(t, place), policy))
			}
		})
	}
}

// outage stops the server, and then freezes it, under a limiter of 5 a day.
func outage(t *testing.T, s server, c *customer) {
	for range 2 {
		require.True(t, c.allow().Allowed)
	}
	s.Stop()
	for range 6 {
		d, err := c.ask()
		c.requireOutage(d, err)
		requireAway(t, errors.Join(err, d.Err))
	}
	require.NoError(t, s.Start())
	require.EqualValues(t, 3, c.awaitRecovery(), "nothing was paid during the outage")
	require.EqualValues(t, 2, c.allow().Remaining)

	s.Pause()
	d, err := c.ask()
	s.Resume()
	require.Error(t, errors.Join(err, d.Err))
	require.Equal(t, c.policy != compose.FailClosed, d.Degraded)
	require.Contains(t, []int64{1, 2}, c.awaitRecovery(), "at most that one call was paid")
}

// requireAway requires the error of a store that is not there; or that of a budget
// which ended between two attempts to reach it.
func requireAway(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, storage.ErrUnavailable) {
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// A customer asks a limiter of 5 a day for one call after the other.
type customer struct {
	t       *testing.T
	policy  compose.FailurePolicy
	limiter *compose.Limiter[string]
	local   int64 // calls that were allowed in the outage
}

func newCustomer(t *testing.T, store storage.Store, policy compose.FailurePolicy) *customer {
	limit, err := compose.ParsePolicy("fixedwindow 5/24h")
	require.NoError(t, err)
	l, err := compose.Options[string]{
		Namespace: t.Name(), Budget: hasty, OnFailure: policy,
	}.New(store, compose.Rule[string]{Name: "daily", Key: func(key string) string { return key }, Policy: limit})
	require.NoError(t, err)
	return &customer{t: t, policy: policy, limiter: l}
}

// ask asks for one call, which must not hang.
func (c *customer) ask() (d compose.Decision, err error) {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		d, err = c.limiter.Allow(context.Background(), c.key())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(long):
		c.t.Fatal("the call hangs")
	}
	return d, err
}

func (c *customer) key() string { return string(rune('a' + c.policy)) }

// allow is a call that the store decides.
func (c *customer) allow() compose.Decision {
	c.t.Helper()
	var d compose.Decision
	var err error
	require.Eventually(c.t, func() bool {
		d, err = c.ask()
		return !errors.Is(errors.Join(err, d.Err), storage.ErrNotApplied) // a busy machine
	}, long, time.Millisecond)
	require.NoError(c.t, errors.Join(err, d.Err))
	return d
}

// requireOutage requires what the policy makes of it.
func (c *customer) requireOutage(d compose.Decision, err error) {
	c.t.Helper()
	switch c.policy {
	case compose.FailClosed:
		require.Error(c.t, err)
		require.False(c.t, d.Allowed)
		require.False(c.t, d.Degraded)
	case compose.FailOpen:
		require.NoError(c.t, err)
		require.True(c.t, d.Allowed)
		require.True(c.t, d.Degraded)
	case compose.FailLocal:
		require.NoError(c.t, err)
		require.True(c.t, d.Degraded)
		require.Equal(c.t, c.local < 5, d.Allowed, "a limiter of its own, in memory")
		c.local++
	}
}

// awaitRecovery waits until the same limiter hears of the store again, and says
// how much is left.
func (c *customer) awaitRecovery() (remaining int64) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		d, err := c.limiter.Peek(context.Background(), c.key())
		remaining = d.Remaining
		return err == nil && !d.Degraded
	}, long, time.Millisecond)
	return remaining
}
