package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// behind is a store on one connection behind a proxy that numbers its writes,
// and the same one past the proxy.
func behind(t *testing.T, server *servers.RedisServer) (s, truth *redis.Store, proxy *faultproxy.Proxy) {
	t.Helper()
	proxy = faultproxy.Redis(t, server.Addr())
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr(), PoolSize: 1, ContextTimeoutEnabled: true, ReadTimeout: long})
	t.Cleanup(func() { client.Close() })
	s, truth = open(t, client, t.Name()), open(t, newClient(t, server.Addr()), t.Name())
	know(t, s)
	proxy.Only(isWrite)
	return s, truth, proxy
}

// meet has a swap of two keys meet a fault, and requires that the answer is no lie about
// what is stored.
func meet(t *testing.T, s, truth *redis.Store, proxy *faultproxy.Proxy, fault faultproxy.Fault) {
	t.Helper()
	proxy.Plan(fault)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if fault.Kind.Hangs() {
		go func() {
			waitFor(t, func() bool { return proxy.Seen() >= fault.At })
			cancel()
		}()
	}
	_, swapped, err := s.CompareAndSwap(ctx, creating("a", "x"), creating("b", "x"))
	waitFor(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 })
	if fault.Kind == faultproxy.StallReply || fault.Kind == faultproxy.LateRequest {
		// What the client had sent may still be on its way.
		create(t, s, creating("marker", "x"))
	}
	require.False(t, swapped)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	there := stored(t, truth, "a") == "x"
	require.Equal(t, there, stored(t, truth, "b") == "x", "torn")
	require.Equal(t, fault.Kind.Applied(), there)
	require.False(t, there && errors.Is(err, storage.ErrNotApplied))
}

func TestASwapMeetsAFault(t *testing.T) {
	server := shared.Redis(t)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			s, truth, proxy := behind(t, server)
			meet(t, s, truth, proxy, faultproxy.Fault{At: 1, Kind: kind})
		})
	}
}

// The server does not know the script, so the swap is sent twice, and the fault hits the second
// command.
func TestASwapInFullMeetsAFault(t *testing.T) {
	server := servers.Redis(t)
	for _, kind := range []faultproxy.Kind{faultproxy.DropRequest, faultproxy.DropReply, faultproxy.CutReply} {
		t.Run(kind.String(), func(t *testing.T) {
			s, truth, proxy := behind(t, server)
			do(t, server, "SCRIPT", "FLUSH")
			meet(t, s, truth, proxy, faultproxy.Fault{At: 2, Kind: kind})
		})
	}
}

// The user may not delete.
func TestASwapThatIsNotAllAllowed(t *testing.T) {
	server := shared.Redis(t)
	truth := open(t, newClient(t, server.Addr()), t.Name())
	s := open(t, limited(t, server, "del"), t.Name())
	for _, order := range []string{"put first", "delete first"} {
		put, there := creating(order+" a", "x"), creating(order+" b", "x")
		create(t, truth, put, there)
		swaps := []storage.Swap{after([]storage.Swap{put})[0], {Key: there.Key, Old: there.New.Version}}
		if order == "delete first" {
			swaps[0], swaps[1] = swaps[1], swaps[0]
		}
		_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
		require.False(t, swapped)
		torn := order == "put first"
		require.Equal(t, torn, errors.Is(err, storage.ErrTorn), "%v", err)
		require.Equal(t, !torn, errors.Is(err, storage.ErrNotApplied), "%v", err)
		require.Equal(t, map[bool]string{true: "after", false: "x"}[torn], stored(t, truth, put.Key))
		require.Equal(t, "x", stored(t, truth, there.Key))
	}
}

func TestASwapOfVeryManyKeys(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	var group []storage.Swap
	for i := range 10_000 {
		group = append(group, creating(fmt.Sprint(i), "x"))
	}
	create(t, s, group...)
	create(t, s, after(group)...)
}
