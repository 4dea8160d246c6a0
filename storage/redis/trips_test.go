package redis_test

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// after is the swap that follows another on the same keys.
func after(swaps []storage.Swap) []storage.Swap {
	var next []storage.Swap
	for _, s := range swaps {
		follow := creating(s.Key, "after")
		follow.Old = s.New.Version
		next = append(next, follow)
	}
	return next
}

// A swap is one command, whatever it does and however many keys there are; two
// when the server does not know the script, of which one is for one key.
func TestOneCommand(t *testing.T) {
	server := shared.Redis(t)
	proxy := faultproxy.Redis(t, server.Addr())
	client := newClient(t, proxy.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())
	s := open(t, client, t.Name())
	do(t, server, "SCRIPT", "FLUSH")
	two := []storage.Swap{creating("a", "x"), creating("b", "x")}
	for _, c := range []struct {
		name     string
		group    []storage.Swap
		commands int
		swapped  bool
	}{
		{"the first", []storage.Swap{creating("first", "x")}, 2, true},
		{"a creation", []storage.Swap{creating("one", "x")}, 1, true},
		{"a conflict", []storage.Swap{creating("one", "x")}, 1, false},
		{"the first of two keys", two, 2, true},
		{"two keys", after(two), 1, true},
		{"a conflict of two keys", after(two), 1, false},
	} {
		proxy.Plan()
		_, swapped, err := s.CompareAndSwap(t.Context(), c.group...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.swapped, swapped, c.name)
		require.Equal(t, c.commands, proxy.Seen(), c.name)
	}
}

// All groups of a batch are sent before the first is answered, on one connection: 64
// keys to a command, if they are on one server.
func TestABatchIsOneRoundTrip(t *testing.T) {
	const groups = 3 * 64
	for commands, connect := range map[int]func(addr string) goredis.UniversalClient{
		3: func(addr string) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, ReadTimeout: -1})
		},
		groups: func(addr string) goredis.UniversalClient {
			return goredis.NewClusterClient(&goredis.ClusterOptions{PoolSize: 1, ReadTimeout: -1, ClusterSlots: oneNode(addr)})
		},
	} {
		proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
		client := connect(proxy.Addr())
		t.Cleanup(func() { client.Close() })
		s := open(t, client, fmt.Sprint(t.Name(), commands))
		know(t, s)

		proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.StallReply})
		var batch [][]storage.Swap
		for i := range groups {
			batch = append(batch, []storage.Swap{creating(fmt.Sprint(i), "x")})
		}
		done := make(chan []storage.Outcome, 1)
		go func() { done <- s.CompareAndSwapBatch(t.Context(), batch...) }()
		waitFor(t, func() bool { return proxy.Seen() == commands })
		require.Empty(t, done)
		waitFor(t, func() bool { proxy.Release(); return len(done) == 1 })
		for _, o := range <-done {
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
		require.Equal(t, commands, proxy.Seen())
	}
}
