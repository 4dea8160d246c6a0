package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

func newRing(t *testing.T, o goredis.RingOptions) *goredis.Ring {
	ring := goredis.NewRing(&o)
	t.Cleanup(func() { ring.Close() })
	return ring
}

// A Ring does not redirect commands, so it must choose the shard by the key.
func TestRingChoosesTheShardByTheKey(t *testing.T) {
	addrs := map[string]string{}
	for _, shard := range []string{"a", "b", "c"} {
		addrs[shard] = servers.Redis(t).Addr()
	}
	s := open(t, newRing(t, goredis.RingOptions{Addrs: addrs}), "")
	shards := map[string]bool{}
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
		shards[shard] = true
	}
	require.Len(t, shards, 3)
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

// The limiter has a queue and a circuit breaker for each server.
func TestSilentServerOfARingFailsOnlyItsKeys(t *testing.T) {
	silent, working := servers.Redis(t), servers.Redis(t)
	ring := newRing(t, goredis.RingOptions{
		Addrs: map[string]string{"silent": silent.Addr(), "working": working.Addr()}, ContextTimeoutEnabled: true,
		HeartbeatFn: func(context.Context, *goredis.Client) bool { return true }, // no key moves to another server
	})
	limiter := newHourly(t, open(t, ring, ""), 1_000_000, 0)
	onWorking, onSilent := keyOn(t, limiter, working), keyOn(t, limiter, silent)
	silent.Pause()
	defer silent.Resume()
	load := startTraffic(t, limiter, onSilent)
	defer load.stop()
	for range 1000 {
		_, err := limiter.Allow(t.Context(), onWorking)
		require.NoError(t, err)
	}
	_, err := limiter.Allow(t.Context(), onSilent)
	require.ErrorIs(t, err, storage.ErrUnavailable)
}

// keyOn returns a key whose record is on a server.
func keyOn(t *testing.T, limiter *sluice.Limiter[string], server *servers.RedisServer) string {
	before := do(t, server, "DBSIZE")
	for i := 0; ; i++ {
		_, err := limiter.Allow(t.Context(), strconv.Itoa(i))
		require.NoError(t, err)
		if do(t, server, "DBSIZE") != before {
			return strconv.Itoa(i)
		}
	}
}
