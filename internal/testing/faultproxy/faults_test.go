package faultproxy_test

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

var shared servers.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.PostgresPrograms)) }

const (
	longTimeout  = 20 * time.Second       // no reply takes so long
	shortTimeout = 500 * time.Millisecond // if no reply comes; enough to send a request on a busy machine
)

func TestFaultsOfRedis(t *testing.T) {
	server := emptyRedis(t)
	for _, protocol := range []int{2, 3} {
		for _, kind := range faultproxy.Kinds() {
			t.Run(kind.String()+" in RESP"+strconv.Itoa(protocol), func(t *testing.T) {
				key := t.Name()
				p := faultproxy.Redis(t, server.Addr())
				p.Only(isIncrement)
				p.Plan(faultproxy.Fault{At: 2, Kind: kind})
				client := newClient(t, p.Addr(), protocol)

				require.NoError(t, increment(client, key, longTimeout))
				require.Error(t, increment(client, key, timeout(kind)))
				requireHit(t, p, kind)
				applied := map[bool]string{true: "2", false: "1"}
				require.Equal(t, applied[kind.Applied()], count(t, server, key))

				require.NoError(t, increment(client, key, longTimeout))
				require.Equal(t, 3, p.Exchanges())
			})
		}
	}
}

func TestRedisWithoutFaults(t *testing.T) {
	p := faultproxy.Redis(t, emptyRedis(t).Addr())
	client := newClient(t, p.Addr(), 3)
	big := strings.Repeat("x\r\n", 100_000)
	require.NoError(t, client.Set(t.Context(), "big", big, 0).Err())
	require.Equal(t, big, client.Get(t.Context(), "big").Val())
	require.NoError(t, client.HSet(t.Context(), "map", "a", 1, "b", 2).Err())
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, client.HGetAll(t.Context(), "map").Val())
	require.ErrorIs(t, client.Get(t.Context(), "absent").Err(), redis.Nil)

	p.Plan()
	script := redis.NewScript("return {1, {2, false}, ARGV[1]}")
	_, err := script.Run(t.Context(), client, nil, "three").Result()
	require.NoError(t, err)
	require.Equal(t, 2, p.Exchanges(), "EVALSHA of an unknown script, and EVAL")
}

func emptyRedis(t *testing.T) *servers.RedisServer {
	t.Helper()
	server := shared.Redis(t)
	for _, what := range []string{"FLUSHALL", "SCRIPT FLUSH"} {
		_, err := server.Do(strings.Fields(what)...)
		require.NoError(t, err)
	}
	return server
}

func newClient(t *testing.T, addr string, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: protocol, MaxRetries: -1, PoolSize: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func increment(client *redis.Client, key string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return client.Incr(ctx, key).Err()
}

func isIncrement(request []byte) bool { return bytes.Contains(request, []byte("incr")) }

func count(t *testing.T, server *servers.RedisServer, key string) string {
	t.Helper()
	reply, err := server.Do("GET", key)
	require.NoError(t, err)
	return reply
}

func timeout(kind faultproxy.Kind) time.Duration {
	if kind.Hangs() {
		return shortTimeout
	}
	return longTimeout
}

func requireHit(t *testing.T, p *faultproxy.Proxy, kind faultproxy.Kind) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.Hits()) > 0 }, longTimeout, time.Millisecond)
	require.Equal(t, []faultproxy.Fault{{At: 2, Kind: kind}}, p.Hits())
}
