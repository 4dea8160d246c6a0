package redis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// The limits refill nothing in the time of the test. One is used up before the
// failover; of the other at most what was admitted after the fence, and before
// the primary died, may be forgotten.
func TestSentinelPromotesAReplicaUnderLoad(t *testing.T) {
	for name, topple := range map[string]func(*servers.RedisSentinel) error{
		"the primary dies": func(group *servers.RedisSentinel) error { group.Primary.Kill(); return nil },
		"the primary is demoted": func(group *servers.RedisSentinel) error {
			_, err := group.Sentinel.Do("SENTINEL", "FAILOVER", servers.SentinelName)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failOver(t, servers.Sentinel(t), topple)
		})
	}
}

func failOver(t *testing.T, group *servers.RedisSentinel, topple func(*servers.RedisSentinel) error) {
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: group.Addrs(),
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "")
	const most = 1_000_000 // more than is asked for
	limiter, patient := hourly(t, s, most, 0), hourly(t, s, most, long)
	d, err := patient.AllowN(t.Context(), "early", most)
	require.NoError(t, err)
	require.True(t, d.Allowed)

	load := begin(t, limiter, "late")
	load.await(t, 50)
	fenced := load.admitted.Load()
	fence(t, group)
	require.Eventually(t, func() bool { // a sentinel that has not heard of the replica for a while refuses
		err = topple(group)
		return err == nil
	}, long, 10*time.Millisecond)
	require.Eventually(t, func() bool { return promotedIn(group) }, long, 10*time.Millisecond)
	promoted := load.admitted.Load()
	load.await(t, promoted+50)
	load.end()

	other := hourly(t, s, most, long) // remembers nothing
	early, err := other.Peek(t.Context(), "early")
	require.NoError(t, err)
	require.Zero(t, early.Remaining, "what was replicated is remembered")
	late, err := other.Peek(t.Context(), "late")
	require.NoError(t, err)
	used, admitted, unknown := most-late.Remaining, load.admitted.Load(), load.unknown.Load()
	t.Logf("fenced %d, admitted %d, of unknown outcome %d, known to the new primary %d", fenced, admitted, unknown, used)
	require.GreaterOrEqual(t, used, fenced+admitted-promoted)
	require.LessOrEqual(t, used, admitted+unknown)
}

// promotedIn reports whether the replica is known as the primary, and the old
// one takes no more writes.
func promotedIn(group *servers.RedisSentinel) bool {
	addr, err := group.PrimaryAddr()
	if err != nil || addr != group.Replica.Addr() {
		return false
	}
	role, err := group.Primary.Do("ROLE")
	return err != nil || strings.HasPrefix(role, "slave")
}

// fence returns when all that was written before is on the replica.
func fence(t *testing.T, group *servers.RedisSentinel) {
	t.Helper()
	do(t, group.Primary, "SET", "fence", "here")
	require.Eventually(t, func() bool { return do(t, group.Replica, "GET", "fence") == "here" }, long, time.Millisecond)
}

// pressure is a limiter under load.
type pressure struct {
	admitted, unknown atomic.Int64
	end               func() // returns when the load has ended
}

func begin(t *testing.T, limiter *compose.Limiter[string], key string) *pressure {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pressure{}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				// Not the load's context: the last decision ends in peace.
				d, err := limiter.Allow(context.Background(), key)
				switch {
				case errors.Is(err, storage.ErrOutcomeUnknown):
					p.unknown.Add(1)
				case d.Allowed:
					p.admitted.Add(1)
				}
			}
		})
	}
	p.end = func() { cancel(); running.Wait() }
	t.Cleanup(p.end)
	return p
}

func (p *pressure) await(t *testing.T, admitted int64) {
	t.Helper()
	require.Eventually(t, func() bool { return p.admitted.Load() >= admitted }, long, time.Millisecond)
}

// still is a clock that stands still, so that nothing is refilled.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func hourly(t *testing.T, s storage.Store, count int64, timeout time.Duration) *compose.Limiter[string] {
	t.Helper()
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(count, time.Hour)})
	require.NoError(t, err)
	limiter, err := compose.Options[string]{Clock: still, Timeout: timeout}.New(s,
		compose.Rule[string]{Name: "key", Key: func(key string) string { return key }, Policy: policy})
	require.NoError(t, err)
	return limiter
}

// A client that spreads reads over replicas sends writes to the primary.
func TestWritesAreNotSpread(t *testing.T) {
	group := shared.Sentinel(t)
	client := goredis.NewFailoverClusterClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: group.Addrs(), RouteRandomly: true,
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "routed:")
	for i := range 20 {
		create(t, s, creating(strconv.Itoa(i), "x"))
	}
}
