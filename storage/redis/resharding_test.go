package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

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
