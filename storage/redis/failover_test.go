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
	limiter, slow := newHourly(t, s, 0), newHourly(t, s, longTimeout)
	d, err := slow.AllowN(t.Context(), "early", limit)
	require.NoError(t, err)
	require.True(t, d.Allowed)

	load := startTraffic(t, limiter, "late")
	load.await(t, 50)
	replicated := load.admitted.Load()
	waitForOffset(t, group.Primary, group.Replica)
	require.Eventually(t, func() bool { // a sentinel refuses if it has not heard of the replica recently
		err = failover(group)
		return err == nil
	}, longTimeout, 10*time.Millisecond)
	require.Eventually(t, func() bool { return isPromoted(group) }, longTimeout, 10*time.Millisecond)
	promoted := load.admitted.Load()
	load.await(t, promoted+50)

	other := newHourly(t, s, longTimeout) // has no cached state
	requireUsed(t, other, promoted-replicated, load)
	early, err := other.Peek(t.Context(), "early")
	require.NoError(t, err)
	require.Zero(t, early.Remaining, "replicated writes are not lost")
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

// waitForOffset returns when the replica has all earlier writes.
func waitForOffset(t *testing.T, primary, replica *servers.RedisServer) {
	t.Helper()
	written := offset(t, primary)
	require.Eventually(t, func() bool { return offset(t, replica) >= written }, longTimeout, time.Millisecond)
}

func offset(t *testing.T, node *servers.RedisServer) int {
	t.Helper()
	_, rest, _ := strings.Cut(do(t, node, "INFO", "replication"), "master_repl_offset:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}

// traffic makes concurrent requests to a limiter for one key.
type traffic struct {
	key               string
	admitted, unknown atomic.Int64
	stop              func() // waits for the last request
}

func startTraffic(t *testing.T, limiter *sluice.Limiter[string], key string) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	p := &traffic{key: key}
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

// limit is the number of units of each limit. It is more than the traffic uses.
const limit = 1_000_000

// requireUsed stops the traffic. It checks that all admitted requests are stored, except those that may be lost, and none but
// these and those of unknown outcome.
func requireUsed(t *testing.T, limiter *sluice.Limiter[string], lost int64, loads ...*traffic) {
	t.Helper()
	var admitted, unknown int64
	for _, load := range loads {
		load.stop()
		admitted += load.admitted.Load()
		unknown += load.unknown.Load()
	}
	var d sluice.Decision
	require.Eventually(t, func() (ok bool) {
		var err error
		d, err = limiter.Peek(t.Context(), loads[0].key)
		return err == nil
	}, longTimeout, time.Millisecond)
	for _, r := range d.Results {
		require.Equal(t, d.Remaining, r.Remaining, "all or nothing")
	}
	used := limit - d.Remaining
	t.Logf("admitted %d, lost at most %d, unknown %d, used %d", admitted, lost, unknown, used)
	require.GreaterOrEqual(t, used, admitted-lost)
	require.LessOrEqual(t, used, admitted+unknown)
}

// fixedClock stands still, so that limits are not refilled.
func fixedClock() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func newHourly(t *testing.T, s storage.Store, timeout time.Duration) *sluice.Limiter[string] {
	t.Helper()
	limiter, err := sluice.Options[string]{Clock: fixedClock, Timeout: timeout}.New(s, sluice.PerKey(fmt.Sprintf("gcra %d/h", limit)))
	require.NoError(t, err)
	return limiter
}

func TestClientThatReadsFromReplicasWritesToThePrimary(t *testing.T) {
	group := servers.Sentinel(t)
	client := goredis.NewFailoverClusterClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: []string{group.Sentinel.Addr()}, RouteRandomly: true,
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "routed:")
	for i := range 20 {
		swap(t, s, creating(strconv.Itoa(i), "x"))
	}
}
