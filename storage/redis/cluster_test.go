package redis_test

import (
	"fmt"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// newCluster returns a client, by default of the shared cluster.
func newCluster(t *testing.T, o goredis.ClusterOptions) *goredis.ClusterClient {
	t.Helper()
	if o.Addrs == nil {
		o.Addrs = shared.Cluster(t).Addrs()
	}
	client := goredis.NewClusterClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}

// slotOf returns the slot of a name.
func slotOf(t *testing.T, cluster *servers.RedisCluster, name string) int {
	t.Helper()
	slot, err := strconv.Atoi(do(t, cluster.Nodes[0], "CLUSTER", "KEYSLOT", name))
	require.NoError(t, err)
	return slot
}

func TestLawsOnACluster(t *testing.T) {
	storagetest.Run(t, harness(newCluster(t, goredis.ClusterOptions{})))
}

func TestCallAcrossSlotsIsRefused(t *testing.T) {
	s := open(t, newCluster(t, goredis.ClusterOptions{}), "cross:")
	a, b, c := textOf("one", "a"), textOf("one", "b"), textOf("two", "c")
	_, _, load := s.Load(t.Context(), a, b, c)
	_, _, swap := s.CompareAndSwap(t.Context(), creating(a, "x"), creating(b, "x"), creating(c, "x"))
	for _, err := range []error{load, swap, runErr(t.Context(), s, requestEach(a, b, c))} {
		require.ErrorIs(t, err, redis.ErrCrossSlot)
		require.ErrorIs(t, err, storage.ErrKey, "a wrong configuration is not a failure of the store")
		require.NotErrorIs(t, err, storage.ErrUnavailable)
		var of *storage.KeyError
		require.ErrorAs(t, err, &of)
		require.Equal(t, c, of.Key)
	}
}

// The nodes do not know the scripts yet.
func TestOneRunReachesAllNodes(t *testing.T) {
	for _, node := range shared.Cluster(t).Nodes {
		do(t, node, "SCRIPT", "FLUSH")
	}
	s := open(t, newCluster(t, goredis.ClusterOptions{}), "run:")
	var batches []*driver.Batch
	for i := range 30 {
		group := strconv.Itoa(i)
		batches = append(batches, requestEach(textOf(group, "a"), textOf(group, "b")))
	}
	runOK(t, s, batches...)
	for _, b := range batches {
		for _, key := range b.Keys {
			require.Equal(t, 1, usedOf(t, s, key))
		}
	}
}

func TestPlaceInACluster(t *testing.T) {
	cluster := shared.Cluster(t)
	client := newCluster(t, goredis.ClusterOptions{})
	s := open(t, client, "place:")
	for _, key := range []string{"{open", "{}empty"} { // these braces are no hash tags
		_, slot, err := s.Place(key)
		require.NoError(t, err)
		require.Equal(t, "place:"+key, slot)
	}
	shards, slots := map[string]bool{}, map[string]bool{}
	for i := range 30 {
		group := fmt.Sprintf([]string{"%d", "{%d}", "%d}{"}[i%3], i)
		a, b := textOf(group, "a"), textOf(group, "b")
		shard, slot, err := s.Place(a, b)
		require.NoError(t, err)
		slots[slot] = true
		if i == 0 {
			require.Empty(t, shard, "the client does not know the nodes yet")
			require.NoError(t, client.Ping(t.Context()).Err())
			continue
		}
		require.Equal(t, cluster.Owner(slotOf(t, cluster, s.NameOf(a))).Addr(), shard)
		shards[shard] = true
	}
	require.Len(t, slots, 30, "requests of different groups do not share a batch")
	require.Len(t, shards, 3)
}

// The client has one node of a cluster, so it does not know slots. The server reports CROSSSLOT.
func TestServerReportsKeysInDifferentSlots(t *testing.T) {
	s := open(t, newClient(t, shared.Cluster(t).Nodes[0].Addr()), "slots:")
	b := requestEach("a", "b")
	run(t, s, b)
	require.ErrorIs(t, b.Err, storage.ErrContended)
	slots := placeOf(t, s, "a", "b")
	require.NotEqual(t, slots[0], slots[1])
	together := oneRequest("a", "b")
	run(t, s, together)
	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "x"), creating("b", "x"))
	for _, err := range []error{together.Err, err} {
		require.ErrorIs(t, err, redis.ErrCrossSlot)
		requireRefused(t, err)
	}
}

func TestUserOfAClusterNeedsOnlyTheDocumentedCommands(t *testing.T) {
	cluster := shared.Cluster(t)
	for _, node := range cluster.Nodes {
		do(t, node, "ACL", "SETUSER", "limiter", "on", ">x", "~acl:*", "+get", "+mget", "+set", "+psetex", "+pttl", "+del", "+time", "+eval", "+evalsha", "+cluster", "+command")
	}
	s := open(t, newCluster(t, goredis.ClusterOptions{Username: "limiter", Password: "x", DisableIdentity: true}), "acl:")
	for i := range 10 {
		group := strconv.Itoa(i)
		runOK(t, s, oneRequest(textOf(group, "a")), requestEach(textOf(group, "b"), textOf(group, "c")))
		swap(t, s, creating(textOf(group, "d"), "x"))
		require.Equal(t, "x", stored(t, s, textOf(group, "d")))
	}
	for _, node := range cluster.Nodes {
		require.NotContains(t, do(t, node, "ACL", "LOG"), "\ncommand\n", "the client asks for commands only once")
	}
}

// A Ring does not redirect commands, so it must choose the shard by the key.
func TestRingChoosesTheShardByTheKey(t *testing.T) {
	addrs, byAddr := map[string]string{}, map[string]*servers.RedisServer{}
	for _, shard := range []string{"a", "b", "c"} {
		server := servers.Redis(t)
		addrs[shard], byAddr[server.Addr()] = server.Addr(), server
	}
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { ring.Close() })
	s := open(t, ring, "")
	for i := range 30 {
		tenant := fmt.Sprint(i, "\xff{")
		a, b := textOf(tenant, "a"), textOf(tenant, "b")
		swap(t, s, creating(tenant, "x"))
		swap(t, s, creating(a, "x"), creating(b, "x"))
		runOK(t, s, oneRequest(textOf(tenant, "c"), textOf(tenant, "d")))
		for _, key := range []string{tenant, a, b} {
			require.Equal(t, "x", stored(t, s, key))
		}
		require.Equal(t, 1, usedOf(t, s, textOf(tenant, "d")))
		shard, one, err := s.Place(a, b)
		require.NoError(t, err)
		_, other, err := s.Place(textOf("other", "a"))
		require.NoError(t, err)
		require.NotEqual(t, one, other)
		require.Equal(t, "2", do(t, byAddr[shard], "EXISTS", s.NameOf(a), s.NameOf(b)))
	}
	for _, server := range byAddr {
		require.NotEqual(t, "0", do(t, server, "DBSIZE"))
	}
	listed := map[string]bool{}
	for cursor, more := "", true; more; more = cursor != "" {
		var keys []string
		var err error
		keys, cursor, err = s.List(t.Context(), "", cursor, 10)
		require.NoError(t, err)
		for _, key := range keys {
			listed[key] = true
		}
	}
	require.Len(t, listed, 30*5)
	_, _, err := s.Place(textOf("tenant", "a"), textOf("other", "b"))
	require.ErrorIs(t, err, redis.ErrCrossSlot)
}
