package redis_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/faultsweep"
	"github.com/sluice-go/sluice/storage/storagetest"
)

var prefixes atomic.Int64

// harness returns a pair of stores that no other test uses. It empties the servers, because a listing reads all
// their keys.
func harness(client goredis.UniversalClient) func(t *testing.T) storagetest.Harness {
	return func(t *testing.T) storagetest.Harness {
		require.NoError(t, onEach(t, client, func(ctx context.Context, c *goredis.Client) error { return c.FlushDB(ctx).Err() }))
		prefix := fmt.Sprintf("laws%d:", prefixes.Add(1))
		s := open(t, client, prefix)
		return storagetest.Harness{
			Store:   s,
			Other:   open(t, client, prefix+"x"),
			Advance: func(d time.Duration) { advance(t, client, prefix, d) },
			Spoil:   func(key string) { require.NoError(t, client.LPush(t.Context(), s.NameOf(key), "x").Err()) },
			Slack:   2 * time.Millisecond, // the store and advance each round to 1 ms
		}
	}
}

// advance moves the expiry of each key with the prefix nearer by d. PTTL rounds down to ms.
func advance(t *testing.T, client goredis.UniversalClient, prefix string, d time.Duration) {
	const script = `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
		local left = redis.call('PTTL', key)
		if left >= 0 and left < tonumber(ARGV[2]) then
			redis.call('DEL', key)
		elseif left >= 0 then
			redis.call('PEXPIRE', key, math.max(left - ARGV[2], 1))
		end
	end`
	err := onEach(t, client, func(ctx context.Context, c *goredis.Client) error {
		return c.Eval(ctx, "#!lua flags=allow-cross-slot-keys\n"+script, nil, prefix+"*", d.Milliseconds()).Err()
	})
	if err != goredis.Nil {
		require.NoError(t, err)
	}
}

// onEach calls f with a client of each server that takes writes.
func onEach(t *testing.T, client goredis.UniversalClient, f func(context.Context, *goredis.Client) error) error {
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		return cluster.ForEachMaster(t.Context(), f)
	}
	return f(t.Context(), client.(*goredis.Client))
}

func TestLaws(t *testing.T) {
	server := shared.Redis(t)
	for name, o := range map[string]goredis.Options{
		"default options": {Addr: server.Addr()},
		"unix socket, protocol 2, ContextTimeoutEnabled": {Network: "unix", Addr: server.Socket(), Protocol: 2, ContextTimeoutEnabled: true},
	} {
		t.Run(name, func(t *testing.T) { storagetest.Run(t, harness(newClientWith(t, o))) })
	}
}

// A client with default options retries by itself and ignores deadlines. With ContextTimeoutEnabled it
// differs only if a call hangs.
func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	server := shared.Redis(t)
	direct := open(t, newClient(t, server.Addr()), "sweep:")
	sweep := func(ownDeadline bool, kinds ...faultproxy.Kind) func(*testing.T) {
		return func(t *testing.T) {
			faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
				proxy := faultproxy.Redis(t, server.Addr())
				client := newClientWith(t, goredis.Options{Addr: proxy.Addr(), PoolSize: 2, ContextTimeoutEnabled: ownDeadline})
				return faultsweep.Subject{Proxy: proxy, Store: open(t, client, "sweep:"), Direct: direct}
			}, kinds...)
		}
	}
	t.Run("defaults", sweep(false))
	t.Run("ContextTimeoutEnabled", sweep(true, faultproxy.StallRequest, faultproxy.LateRequest, faultproxy.StallReply))
}
