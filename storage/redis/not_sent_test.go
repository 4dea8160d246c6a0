package redis_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage/redis"
)

// The fault is in the handshake of the connection, so the command was not sent and is never sent
// later.
func TestFailedHandshakeSendsNoCommand(t *testing.T) {
	_, program := programOf(t, algo.Per(2, time.Hour))
	for name, connect := range map[string]func(addr string) goredis.UniversalClient{
		"single": func(addr string) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, PoolTimeout: time.Minute, MaxRetries: -1})
		},
		"cluster": func(addr string) goredis.UniversalClient {
			return goredis.NewClusterClient(&goredis.ClusterOptions{PoolSize: 1, PoolTimeout: time.Minute, MaxRedirects: -1, MaxRetries: -1, ClusterSlots: oneNode(addr)})
		},
	} {
		for call, do := range map[string]func(context.Context, *redis.Store) error{
			"swap":        func(ctx context.Context, s *redis.Store) error { return calls(s)["swap"](ctx) },
			"swap of two": func(ctx context.Context, s *redis.Store) error { return calls(s)["swap of two"](ctx) },
			"run": func(ctx context.Context, s *redis.Store) error {
				ctx, cancel := context.WithTimeout(ctx, shortTimeout)
				defer cancel()
				b := oneRequest(program, "a")
				s.Run(ctx, b, oneRequest(program, "b"))
				return b.Err
			},
		} {
			for _, kind := range faultproxy.Kinds() {
				t.Run(name+", "+call+", "+kind.String(), func(t *testing.T) {
					t.Parallel()
					proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
					proxy.Only(isHandshake)
					client := connect(proxy.Addr())
					t.Cleanup(func() { client.Close() })
					s := open(t, client, t.Name())
					ctx := t.Context()
					if kind.Hangs() {
						ctx, _ = cancelledByFault(t, proxy)
					}
					planForAll(proxy, kind)
					requireNotApplied(t, do(ctx, s))

					waitFor(t, func() bool { proxy.Release(); return proxy.Hits() > 0 })
					if kind == faultproxy.StallRequest { // it stalls for ever
						proxy.Disconnect()
					}
					proxy.Plan()
					waitFor(t, func() bool {
						_, swapped, _ := s.CompareAndSwap(t.Context(), creating(strconv.Itoa(rand.Int()), "x"))
						return swapped
					})
					require.Empty(t, stored(t, s, "a"), "it must not be sent later")
					require.Empty(t, stored(t, s, textOf("g", "a")))
				})
			}
		}
	}
}

// planForAll plans a fault for each message.
func planForAll(proxy *faultproxy.Proxy, kind faultproxy.Kind) {
	var faults []faultproxy.Fault
	for at := 1; at < 100; at++ {
		faults = append(faults, faultproxy.Fault{At: at, Kind: kind})
	}
	proxy.Plan(faults...)
}

func isHandshake(request []byte) bool {
	return bytes.Contains(bytes.ToLower(request), []byte("\r\nhello\r\n"))
}

// The only connection of the pool is in use until the deadline.
func TestCallWithoutAConnectionSendsNothing(t *testing.T) {
	client := newClientWith(t, goredis.Options{Addr: shared.Redis(t).Addr(), PoolSize: 1, PoolTimeout: time.Minute, ReadTimeout: -1})
	s := open(t, client, t.Name())
	policy, p := programOf(t, algo.Per(2, time.Hour))
	runOK(t, s, oneRequest(p, "a"))
	busy := client.Conn()
	t.Cleanup(func() { busy.Close() })
	require.NoError(t, busy.Ping(t.Context()).Err()) // takes the connection
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error {
			b, other := oneRequest(p, "a"), oneRequest(p, "b", "c")
			s.Run(ctx, b, other)
			requireNotApplied(t, other.Err)
			return b.Err
		},
		func(ctx context.Context) error {
			_, _, err := s.CompareAndSwap(ctx, creating("d", "x"))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
		defer cancel()
		begun := time.Now()
		requireNotApplied(t, call(ctx))
		require.Less(t, time.Since(begun), shortTimeout+slack)
	}
	require.NoError(t, busy.Close())
	runOK(t, s, oneRequest(p, "c"))
	require.EqualValues(t, 1, usedOf(t, s, policy, "a"))
	require.EqualValues(t, 0, usedOf(t, s, policy, "b"))
	require.Empty(t, stored(t, s, "d"))
}
