package redis_test

import (
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// Batches on all nodes of a cluster, which do not know the script yet, are one Run.
func TestBatchesSpreadOverTheCluster(t *testing.T) {
	cluster := shared.Cluster(t)
	for _, node := range cluster.Nodes {
		do(t, node, "SCRIPT", "FLUSH")
	}
	s := open(t, newCluster(t), "run:")
	policy, p := programOf(t, algo.Per(2, 1000*time.Hour))
	var batches []*driver.Batch
	for i := range 30 {
		group := strconv.Itoa(i)
		batches = append(batches, apart(p, driver.Key(group, "a"), driver.Key(group, "b")))
	}
	crossing := apart(p, driver.Key("x", "a"), driver.Key("y", "a"))
	run(t, s, append(batches, crossing)...)
	require.ErrorIs(t, crossing.Err, redis.ErrCrossSlot)
	require.ErrorIs(t, crossing.Err, storage.ErrNotApplied)
	require.NotErrorIs(t, crossing.Err, storage.ErrContended)
	for _, b := range batches {
		require.NoError(t, b.Err)
		for _, key := range b.Keys {
			require.EqualValues(t, 1, usedOf(t, s, policy, key))
		}
	}
}

func TestPlacesInACluster(t *testing.T) {
	cluster := shared.Cluster(t)
	client := newCluster(t)
	s := open(t, client, "place:")
	shards := map[string]bool{}
	for i := range 30 {
		a, b := driver.Key(strconv.Itoa(i), "a"), driver.Key(strconv.Itoa(i), "b")
		shard, slot, err := s.Place(a, b)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(redis.Slot(s.NameOf(a))), slot)
		if i == 0 {
			require.Empty(t, shard, "the client has not asked the cluster yet")
			require.NoError(t, client.Ping(t.Context()).Err())
			continue
		}
		require.Equal(t, cluster.Owner(redis.Slot(s.NameOf(a))).Addr(), shard)
		shards[shard] = true
	}
	require.Len(t, shards, 3)
	_, _, err := s.Place(driver.Key("x", "a"), driver.Key("y", "a"))
	require.ErrorIs(t, err, redis.ErrCrossSlot)
}

// A client of one node of a cluster learns from the server that keys lie apart.
func TestKeysThatLieApartAreSeparated(t *testing.T) {
	s := open(t, newClient(t, shared.Cluster(t).Nodes[0].Addr()), "apart:")
	_, p := programOf(t, algo.Per(2, time.Hour))
	b := apart(p, "a", "b")
	run(t, s, b)
	require.ErrorIs(t, b.Err, storage.ErrContended)
	_, one, err := s.Place("a")
	require.NoError(t, err)
	_, other, err := s.Place("b")
	require.NoError(t, err)
	require.NotEqual(t, one, other)
	together := allowing(p, "a", "b")
	run(t, s, together)
	require.ErrorIs(t, together.Err, redis.ErrCrossSlot)
	require.NotErrorIs(t, together.Err, storage.ErrContended)
}

// The primary dies while batches run. Each batch is run again, under its version, until it succeeds: no
// unit is admitted twice, and none is lost that the replica had.
func TestAFailoverAdmitsNothingTwice(t *testing.T) {
	t.Parallel()
	group := servers.Sentinel(t)
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: servers.SentinelName, SentinelAddrs: group.Addrs(), ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "")
	policy, p := programOf(t, algo.Per(200, 1000*time.Hour))
	admitted := func(times int) (n int) {
		for range times {
			b := allowing(p, "a", "b")
			again(t, s, b)
			if b.Requests[0].Applied == driver.Stored || b.Requests[0].Applied == 2 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 100, admitted(100))
	fence(t, group)
	group.Primary.Kill()
	require.Equal(t, 100, admitted(150))
	require.EqualValues(t, 200, usedOf(t, s, policy, "a"))
	require.EqualValues(t, 200, usedOf(t, s, policy, "b"))
}

// In a cluster the user needs CLUSTER beside the commands of the scripts.
func TestTheUserOfAClusterNeedsTheseCommandsOnly(t *testing.T) {
	cluster := shared.Cluster(t)
	for _, node := range cluster.Nodes {
		do(t, node, "ACL", "SETUSER", "limiter", "on", ">x", "~acl:*", "+get", "+mget", "+set", "+psetex", "+del", "+time", "+eval", "+evalsha", "+cluster")
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), Username: "limiter", Password: "x"})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "acl:")
	_, p := programOf(t, algo.Per(2, time.Hour))
	for i := range 10 {
		group := strconv.Itoa(i)
		runs(t, s, allowing(p, driver.Key(group, "a")), apart(p, driver.Key(group, "b"), driver.Key(group, "c")))
		create(t, s, creating(driver.Key(group, "d"), "x"))
		_, _, err := s.LoadNow(t.Context(), driver.Key(group, "d"))
		require.NoError(t, err)
	}
}
