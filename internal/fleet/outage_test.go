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
			var customers []*customer
			for _, policy := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
				customers = append(customers, newCustomer(t, openStore(t, place), policy))
			}
			outage(t, s, customers)
		})
	}
}

// outage stops the server, and then freezes it, under limiters of 3 a day.
func outage(t *testing.T, s server, customers []*customer) {
	for _, c := range customers {
		require.EqualValues(t, 2, c.pay())
	}
	s.Stop()
	for _, c := range customers {
		for range 4 {
			d, err := c.ask()
			c.requireOutage(d, err)
			require.ErrorIs(t, errors.Join(err, d.Err), storage.ErrUnavailable)
		}
	}
	require.NoError(t, s.Start())
	for _, c := range customers {
		require.EqualValues(t, 2, c.awaitRecovery(), "nothing was paid during the outage")
		require.EqualValues(t, 1, c.pay())
	}
	s.Pause()
	for _, c := range customers {
		d, err := c.ask()
		require.Error(t, errors.Join(err, d.Err))
		require.Equal(t, c.policy != compose.FailClosed, d.Degraded)
	}
	s.Resume()
	for _, c := range customers {
		require.Contains(t, []int64{0, 1}, c.awaitRecovery(), "at most that one call was paid")
	}
}

// A customer asks a limiter of 3 a day for one call after the other.
type customer struct {
	t       *testing.T
	policy  compose.FailurePolicy
	limiter *compose.Limiter[string]
	patient *compose.Limiter[string] // the same, in another process, that has time
	local   int                      // calls asked for in the outage
}

func newCustomer(t *testing.T, store storage.Store, policy compose.FailurePolicy) *customer {
	limit, err := compose.ParsePolicy("fixedwindow 3/24h")
	require.NoError(t, err)
	rule := compose.Rule[string]{Name: "daily", Key: func(key string) string { return key }, Policy: limit}
	c := &customer{t: t, policy: policy}
	c.limiter, err = compose.Options[string]{Timeout: hasty, OnFailure: policy}.New(store, rule)
	require.NoError(t, err)
	c.patient, err = compose.Options[string]{Timeout: long}.New(store, rule)
	require.NoError(t, err)
	return c
}

// ask asks for one call, which must end within its timeout.
func (c *customer) ask() (d compose.Decision, err error) {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		d, err = c.limiter.Allow(context.Background(), c.key())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(hasty + slack):
		c.t.Fatalf("a call with a timeout of %v has not ended after %v", hasty, hasty+slack)
	}
	return d, err
}

func (c *customer) key() string { return string(rune('a' + c.policy)) }

// pay is a call while the store is there. It says how much is left.
func (c *customer) pay() int64 {
	c.t.Helper()
	d, err := c.patient.Allow(context.Background(), c.key())
	require.NoError(c.t, err)
	require.True(c.t, d.Allowed)
	return d.Remaining
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
		require.Equal(c.t, c.local < 3, d.Allowed, "a limiter of its own, in memory")
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
