package redis_test

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/redis"
)

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
