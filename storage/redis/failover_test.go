package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/sluice-go/sluice/storage/redis"
)

// One limit is used up before the failover and must stay used up. Of the other limit, only requests
// that were admitted after waitForOffset began and before the failover may be lost.
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

// tenant is the group of all keys here, and so their slot.
const tenant = "mover"

// newClusterLimiter returns a limiter with two rules and its own client.
func newClusterLimiter(t *testing.T, addrs []string, prefix string) (*sluice.Limiter[string], *redis.Store) {
	t.Helper()
	s := open(t, newCluster(t, goredis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true}), prefix)
	spec := fmt.Sprintf("gcra %d/h", limit)
	limiter, err := sluice.Options[string]{Clock: fixedClock, Group: func(string) string { return tenant }}.New(s,
		sluice.PerKey(spec), sluice.Rule[string]{Name: "all", Spec: spec})
	require.NoError(t, err)
	return limiter, s
}

// A slot moves to another node and back under load, one key after the other. While the keys of a
// decision are on two nodes, the decision fails and can be retried.
func TestSlotMovesUnderLoad(t *testing.T) {
	cluster := shared.Cluster(t)
	addrs := cluster.Addrs()
	ours, s := newClusterLimiter(t, addrs, "move:")
	theirs, _ := newClusterLimiter(t, addrs, "move:")
	loads := []*traffic{startTraffic(t, ours, "hot"), startTraffic(t, theirs, "hot")}
	more := func() {
		admitted := func() int64 { return loads[0].admitted.Load() + loads[1].admitted.Load() }
		enough := admitted() + 20
		require.Eventually(t, func() bool { return admitted() >= enough }, longTimeout, time.Millisecond)
	}
	more()
	from, to := cluster.Owner(slotOf(t, cluster, "{"+tenant+"}")), cluster.Nodes[0]
	if from == to {
		to = cluster.Nodes[1]
	}
	for range 2 {
		slot := strconv.Itoa(slotOf(t, cluster, "{"+tenant+"}"))
		do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", do(t, from, "CLUSTER", "MYID"))
		do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", do(t, to, "CLUSTER", "MYID"))
		more()
		keys := strings.Split(do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "10"), "\n")
		require.Len(t, keys, 2)
		migrate(t, from, to, keys[0])
		_, _, err := s.CompareAndSwap(t.Context(), creating(storageKey(s, keys[0]), "x"), creating(storageKey(s, keys[1]), "x"))
		requireNotApplied(t, err)
		require.ErrorContains(t, err, "TRYAGAIN")
		migrate(t, from, to, keys[1])
		more()
		for _, node := range []*servers.RedisServer{to, from} {
			do(t, node, "CLUSTER", "SETSLOT", slot, "NODE", do(t, to, "CLUSTER", "MYID"))
		}
		more()
		from, to = to, from
	}
	requireUsed(t, ours, 0, loads...)
}

// storageKey returns the key of a record, given its name in Redis.
func storageKey(s *redis.Store, name string) string {
	return strings.TrimPrefix(name, s.NameOf(""))
}

func migrate(t *testing.T, from, to *servers.RedisServer, key string) {
	t.Helper()
	do(t, from, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key, "0", "20000")
}

// The node of a key dies and its replica takes over. Then the replica dies, which makes the cluster
// fail, and restarts with its data.
func TestNodesOfAClusterDieUnderLoad(t *testing.T) {
	t.Parallel()
	// Without fsync, a write is in the kernel before its reply, so it survives the process.
	cluster := servers.Cluster(t, "appendonly yes", "appendfsync no", "repl-diskless-sync-delay 0")
	primary := cluster.Owner(slotOf(t, cluster, "{"+tenant+"}"))
	replica := servers.Redis(t, "appendonly yes", "appendfsync no", "cluster-enabled yes", "cluster-node-timeout 2000")
	replicate(t, cluster, replica, primary)
	limiter, s := newClusterLimiter(t, cluster.Addrs(), "")
	load := startTraffic(t, limiter, "hot")
	load.await(t, 50)

	replicated := load.admitted.Load()
	waitForOffset(t, primary, replica)
	primary.Kill()
	require.Eventually(t, func() bool { return strings.HasPrefix(do(t, replica, "ROLE"), "master") }, 2*longTimeout, 10*time.Millisecond)
	promoted := load.admitted.Load()
	load.await(t, promoted+50)

	replica.Kill()
	otherSlot := "a"
	for cluster.Owner(slotOf(t, cluster, "{"+otherSlot+"}")) == primary {
		otherSlot += "a"
	}
	require.Eventually(t, func() bool {
		_, _, err := s.CompareAndSwap(t.Context(), creating(textOf(otherSlot, strconv.Itoa(rand.Int())), "x"))
		if err != nil {
			require.ErrorIs(t, err, storage.ErrUnavailable)
		}
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN")
	}, longTimeout, 10*time.Millisecond)
	d, err := limiter.Allow(t.Context(), "hot")
	if !errors.Is(err, storage.ErrOutcomeUnknown) { // the deadline passed while the client looked for a node
		require.ErrorIs(t, err, storage.ErrUnavailable)
	}
	require.False(t, d.Allowed)
	require.NoError(t, replica.Start())
	load.await(t, load.admitted.Load()+50)

	other, _ := newClusterLimiter(t, cluster.Addrs(), "")
	requireUsed(t, other, promoted-replicated, load)
}

// replicate makes a new node the replica of a primary, and returns when all nodes know it.
func replicate(t *testing.T, cluster *servers.RedisCluster, replica, primary *servers.RedisServer) {
	t.Helper()
	do(t, replica, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(primary.Port()))
	id := do(t, primary, "CLUSTER", "MYID")
	require.Eventually(t, func() bool {
		_, err := replica.Do("CLUSTER", "REPLICATE", id)
		return err == nil
	}, longTimeout, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		for _, node := range append(cluster.Nodes[:], replica) {
			nodes := do(t, node, "CLUSTER", "NODES")
			if !strings.Contains(nodes, "slave "+id) || strings.Count(nodes, " connected") != 4 {
				return false
			}
		}
		return strings.Contains(do(t, primary, "INFO", "replication"), "state=online")
	}, longTimeout, 10*time.Millisecond)
}
