package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

// One limit is used up before the failover and must stay used up. Of the other limit, only requests
// that were admitted after waitForReplica and before the failover may be lost.
func TestFailoverBySentinelUnderLoad(t *testing.T) {
	t.Parallel()
	for name, failover := range map[string]func(*servers.RedisSentinel) error{
		"the primary dies": func(group *servers.RedisSentinel) error { group.Primary.Kill(); return nil },
		"the primary is demoted": func(group *servers.RedisSentinel) error {
			_, err := group.Sentinel.Do("SENTINEL", "FAILOVER", servers.SentinelName)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFailover(t, servers.Sentinel(t), failover)
		})
	}
}

func testFailover(t *testing.T, group *servers.RedisSentinel, failover func(*servers.RedisSentinel) error) {
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: []string{group.Sentinel.Addr()},
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "")
	const limit = 1_000_000 // more than the load uses
	limiter, slow := newHourly(t, s, limit, 0), newHourly(t, s, limit, longTimeout)
	d, err := slow.AllowN(t.Context(), "early", limit)
	require.NoError(t, err)
	require.True(t, d.Allowed)

	load := startTraffic(t, limiter, "late")
	load.await(t, 50)
	replicated := load.admitted.Load()
	waitForReplica(t, group)
	require.Eventually(t, func() bool { // a sentinel refuses if it has not heard of the replica recently
		err = failover(group)
		return err == nil
	}, longTimeout, 10*time.Millisecond)
	require.Eventually(t, func() bool { return isPromoted(group) }, longTimeout, 10*time.Millisecond)
	promoted := load.admitted.Load()
	load.await(t, promoted+50)
	load.stop()

	other := newHourly(t, s, limit, longTimeout) // has no cached state
	early, err := other.Peek(t.Context(), "early")
	require.NoError(t, err)
	require.Zero(t, early.Remaining, "replicated writes are not lost")
	late, err := other.Peek(t.Context(), "late")
	require.NoError(t, err)
	used, admitted, unknown := limit-late.Remaining, load.admitted.Load(), load.unknown.Load()
	t.Logf("replicated %d, admitted %d, unknown %d, used on the new primary %d", replicated, admitted, unknown, used)
	require.GreaterOrEqual(t, used, replicated+admitted-promoted)
	require.LessOrEqual(t, used, admitted+unknown)
}

// isPromoted reports whether the sentinel has promoted the replica, and the old primary refuses
// writes.
func isPromoted(group *servers.RedisSentinel) bool {
	addr, err := group.PrimaryAddr()
	if err != nil || addr != group.Replica.Addr() {
		return false
	}
	role, err := group.Primary.Do("ROLE")
	return err != nil || strings.HasPrefix(role, "slave")
}

// waitForReplica returns when the replica has all earlier writes.
func waitForReplica(t *testing.T, group *servers.RedisSentinel) {
	t.Helper()
	do(t, group.Primary, "SET", "last", "x")
	require.Eventually(t, func() bool { return do(t, group.Replica, "GET", "last") == "x" }, longTimeout, time.Millisecond)
}

// traffic makes concurrent requests to a limiter.
type traffic struct {
	admitted, unknown atomic.Int64
	stop              func() // waits for the last request
}

func startTraffic(t *testing.T, limiter *sluice.Limiter[string], key string) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	p := &traffic{}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				d, err := limiter.Allow(context.Background(), key)
				switch {
				case errors.Is(err, storage.ErrOutcomeUnknown):
					p.unknown.Add(1)
				case d.Allowed:
					p.admitted.Add(1)
				}
				time.Sleep(time.Millisecond) // leaves the processor to the servers
			}
		})
	}
	p.stop = func() { cancel(); running.Wait() }
	t.Cleanup(p.stop)
	return p
}

func (p *traffic) await(t *testing.T, admitted int64) {
	t.Helper()
	require.Eventually(t, func() bool { return p.admitted.Load() >= admitted }, longTimeout, time.Millisecond)
}

// fixedClock stands still, so that limits are not refilled.
func fixedClock() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func newHourly(t *testing.T, s storage.Store, count int64, timeout time.Duration) *sluice.Limiter[string] {
	t.Helper()
	limiter, err := sluice.Options[string]{Clock: fixedClock, Timeout: timeout}.New(s, sluice.PerKey(fmt.Sprintf("gcra %d/h", count)))
	require.NoError(t, err)
	return limiter
}

func TestClientThatReadsFromReplicasWritesToThePrimary(t *testing.T) {
	group := shared.Sentinel(t)
	client := goredis.NewFailoverClusterClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: []string{group.Sentinel.Addr()}, RouteRandomly: true,
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "routed:")
	for i := range 20 {
		swap(t, s, creating(strconv.Itoa(i), "x"))
	}
}
