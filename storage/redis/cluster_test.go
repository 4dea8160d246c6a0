package redis_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func newCluster(t *testing.T) *goredis.ClusterClient {
	t.Helper()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: shared.Cluster(t).Addrs()})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestLawsOnACluster(t *testing.T) { storagetest.Run(t, harness(newCluster(t))) }

// hostile are groups that would like to choose their own slot, or to share that
// of another group.
var hostile = []string{
	"tenant", "}", "{", "{}", "}{", "{a}", "a}b", "{{a}}", "}{a}", "\x00", "\xff}\r\n", "ключ",
	string(make([]byte, 200)), // hashed, as groups over 128 bytes are
}

func TestGroupsAreSlots(t *testing.T) {
	client := newCluster(t)
	s := open(t, client, "groups:")
	for _, group := range hostile {
		t.Run(fmt.Sprintf("%.20q", group), func(t *testing.T) {
			var swaps []storage.Swap
			for _, part := range append(hostile, t.Name()) {
				swaps = append(swaps, creating(driver.Key(group, part), part))
			}
			create(t, s, swaps...)
			require.Equal(t, "{a}", stored(t, s, driver.Key(group, "{a}")))
		})
	}
}

// Without a group, braces in a user's key must not draw it into one slot.
func TestKeysWithoutAGroupSpread(t *testing.T) {
	s := open(t, newCluster(t), "spread:")
	slots := map[int]bool{}
	for i := range 100 {
		slots[redis.Slot(s.NameOf(driver.Key("", "{same}", strconv.Itoa(i))))] = true
	}
	require.Greater(t, len(slots), 90)
}

func TestSlotIsTheServers(t *testing.T) {
	client := newCluster(t)
	random := rand.New(rand.NewPCG(1, 2))
	keys := append([]string{"", "123456789", "{}{a}", "a{b}c{d}", "a{b", "a}b{c}"}, hostile...)
	for range 200 {
		key := make([]byte, random.IntN(12))
		for i := range key {
			key[i] = "{}ab\x00\xff"[random.IntN(6)]
		}
		keys = append(keys, string(key))
	}
	for _, key := range keys {
		require.EqualValues(t, client.ClusterKeySlot(t.Context(), key).Val(), redis.Slot(key), "%q", key)
	}
}

func TestCrossSlot(t *testing.T) {
	client := newCluster(t)
	s := open(t, client, "cross:")
	a, b, c := driver.Key("one", "a"), driver.Key("one", "b"), driver.Key("two", "c")
	_, swapped, err := s.CompareAndSwap(t.Context(), creating(a, "x"), creating(b, "x"), creating(c, "x"))
	require.False(t, swapped)
	require.ErrorIs(t, err, redis.ErrCrossSlot)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorIs(t, err, storage.ErrKey, "the limiter is set up wrongly; its failure policy does not apply")
	require.ErrorContains(t, err, strconv.Quote(s.NameOf(a)))
	require.ErrorContains(t, err, strconv.Quote(s.NameOf(c)))

	records, err := s.Load(t.Context(), a, b, c)
	require.NoError(t, err, "reading may cross slots")
	require.Equal(t, make([]storage.Record, 3), records)
}

// A client of one node of a cluster, or of a proxy in front of it, knows no
// slots; the server tells.
func TestCrossSlotToldByTheServer(t *testing.T) {
	s := open(t, newClient(t, shared.Cluster(t).Nodes[0].Addr()), "told:")
	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "x"), creating("b", "x"))
	require.ErrorIs(t, err, redis.ErrCrossSlot)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
}

// The keys lie on all the nodes, which do not know the script yet.
func TestSwapsSpreadOverTheCluster(t *testing.T) {
	cluster := shared.Cluster(t)
	for _, node := range cluster.Nodes {
		do(t, node, "SCRIPT", "FLUSH")
	}
	s := open(t, newCluster(t), "batch:")
	nodes := map[string]int{}
	for i := range 30 {
		group := strconv.Itoa(i)
		a, b := driver.Key(group, "a"), driver.Key(group, "b")
		create(t, s, creating(a, group), creating(b, group))
		require.Equal(t, group, stored(t, s, b))
		nodes[cluster.Owner(redis.Slot(s.NameOf(a))).Addr()]++
	}
	require.Len(t, nodes, 3)
}
