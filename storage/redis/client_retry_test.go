package redis_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// retryingClients retry commands by default, and wait a short time for a reply.
var retryingClients = map[string]func(addr string) goredis.UniversalClient{
	"single": func(addr string) goredis.UniversalClient {
		return goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: 5, ReadTimeout: shortTimeout})
	},
	"cluster": func(addr string) goredis.UniversalClient {
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			MaxRedirects: 5, MaxRetries: 5, ReadTimeout: shortTimeout, ClusterSlots: oneNode(addr),
		})
	},
	"ring": func(addr string) goredis.UniversalClient {
		return goredis.NewRing(&goredis.RingOptions{
			Addrs: map[string]string{"shard": addr}, MaxRetries: 5, ReadTimeout: shortTimeout,
		})
	},
}

// oneNode is a cluster of one node.
func oneNode(addr string) func(context.Context) ([]goredis.ClusterSlot, error) {
	return func(context.Context) ([]goredis.ClusterSlot, error) {
		return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
	}
}

// proxied returns a store behind a proxy that counts its writes, and a store with the same records
// without the proxy. The server knows the scripts, and the client is connected.
func proxied(t *testing.T, server *servers.RedisServer, connect func(addr string) goredis.UniversalClient) (s, direct *redis.Store, proxy *faultproxy.Proxy) {
	t.Helper()
	proxy = faultproxy.Redis(t, server.Addr())
	client := connect(proxy.Addr())
	t.Cleanup(func() { client.Close() })
	s, direct = open(t, client, t.Name()), open(t, newClient(t, server.Addr()), t.Name())
	loadScripts(t, direct)
	waitFor(t, func() bool { _, _, err := s.Load(t.Context(), "a"); return err == nil })
	proxy.Only(isWrite)
	return s, direct, proxy
}

func isWrite(request []byte) bool { return bytes.Contains(request, []byte("\r\neval")) }

// swapWithFault makes a swap of two keys fail, and checks that the error is correct.
func swapWithFault(t *testing.T, s, direct *redis.Store, proxy *faultproxy.Proxy, fault faultproxy.Fault) {
	t.Helper()
	proxy.Plan(fault)
	a, b := textOf("group", "a"), textOf("group", "b")
	_, swapped, err := s.CompareAndSwap(t.Context(), creating(a, "x"), creating(b, "x"))
	waitFor(t, func() bool { proxy.Release(); return proxy.Hits() == 1 })
	require.False(t, swapped)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.Equal(t, fault.At, proxy.Exchanges(), "the client must not retry a write")
	if fault.Kind != faultproxy.LateRequest { // may be applied later
		applied := stored(t, direct, a) == "x"
		require.Equal(t, applied, stored(t, direct, b) == "x", "all or nothing")
		require.Equal(t, fault.Kind.Applied(), applied)
		require.False(t, applied && errors.Is(err, storage.ErrNotApplied))
	}
}

// The server does not know the script, so the swap is sent twice. The fault is in the second command.
func TestClientNeverRetriesAWriteAfterUnknownScript(t *testing.T) {
	server := servers.Redis(t)
	for _, kind := range []faultproxy.Kind{faultproxy.DropRequest, faultproxy.DropReply, faultproxy.CutReply} {
		t.Run(kind.String(), func(t *testing.T) {
			s, direct, proxy := proxied(t, server, retryingClients["single"])
			do(t, server, "SCRIPT", "FLUSH")
			swapWithFault(t, s, direct, proxy, faultproxy.Fault{At: 2, Kind: kind})
		})
	}
}
