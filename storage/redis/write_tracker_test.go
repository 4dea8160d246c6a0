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
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// untilHit is a context that is cancelled once the proxy has done its damage,
// or holds what is to be held.
func untilHit(t *testing.T, proxy *faultproxy.Proxy) (ctx context.Context, cancelled <-chan time.Time) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	at := make(chan time.Time, 1)
	go func() {
		for ctx.Err() == nil && proxy.Seen() == 0 {
			time.Sleep(time.Millisecond)
		}
		at <- time.Now()
		cancel()
	}()
	return ctx, at
}

// A connection whose greeting meets a fault has not been used for the command:
// nothing was applied, and nothing will be.
func TestNothingIsSentOnAConnectionThatFails(t *testing.T) {
	_, program := programOf(t, algo.Per(2, time.Hour))
	for name, connect := range map[string]func(addr string) goredis.UniversalClient{
		"alone": func(addr string) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, PoolTimeout: time.Minute, MaxRetries: -1})
		},
		"cluster": func(addr string) goredis.UniversalClient {
			return goredis.NewClusterClient(&goredis.ClusterOptions{PoolSize: 1, PoolTimeout: time.Minute, MaxRedirects: -1, MaxRetries: -1, ClusterSlots: oneNode(addr)})
		},
	} {
		for call, do := range map[string]func(context.Context, *redis.Store) error{
			"swap": func(ctx context.Context, s *redis.Store) error {
				_, _, err := s.CompareAndSwap(ctx, creating("a", "x"))
				return err
			},
			"swap of two": func(ctx context.Context, s *redis.Store) error {
				_, _, err := s.CompareAndSwap(ctx, creating(driver.Key("g", "a"), "x"), creating(driver.Key("g", "b"), "x"))
				return err
			},
			"run": func(ctx context.Context, s *redis.Store) error {
				ctx, cancel := context.WithTimeout(ctx, moment)
				defer cancel()
				b := allowing(program, "a")
				s.Run(ctx, b, allowing(program, "b"))
				return b.Err
			},
		} {
			for _, kind := range faultproxy.Kinds() {
				t.Run(name+", "+call+", "+kind.String(), func(t *testing.T) {
					t.Parallel()
					proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
					proxy.Only(isGreeting)
					client := connect(proxy.Addr())
					t.Cleanup(func() { client.Close() })
					s := open(t, client, t.Name())
					ctx := t.Context()
					if kind.Hangs() {
						ctx, _ = untilHit(t, proxy)
					}
					damage(proxy, kind)
					refuses(t, do(ctx, s))

					require.Eventually(t, func() bool { proxy.Release(); return len(proxy.Hits()) > 0 }, long, time.Millisecond)
					if kind == faultproxy.StallRequest { // for ever
						proxy.Refuse()
						require.NoError(t, proxy.Accept())
					}
					proxy.Plan()
					require.Eventually(t, func() bool {
						_, swapped, _ := s.CompareAndSwap(t.Context(), creating(strconv.Itoa(rand.Int()), "x"))
						return swapped
					}, long, time.Millisecond)
					require.Empty(t, stored(t, s, "a"), "and it never comes")
					require.Empty(t, stored(t, s, driver.Key("g", "a")))
				})
			}
		}
	}
}

// damage plans more faults than there will be exchanges.
func damage(proxy *faultproxy.Proxy, kind faultproxy.Kind) {
	var faults []faultproxy.Fault
	for at := 1; at < 100; at++ {
		faults = append(faults, faultproxy.Fault{At: at, Kind: kind})
	}
	proxy.Plan(faults...)
}

func isGreeting(request []byte) bool {
	return bytes.Contains(bytes.ToLower(request), []byte("\r\nhello\r\n"))
}

// Who waits for a connection of the pool has sent nothing.
func TestNothingIsSentWithoutAConnection(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: shared.Redis(t).Addr(), PoolSize: 1, PoolTimeout: time.Minute, ReadTimeout: -1})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, t.Name())
	know(t, s)
	busy := client.Conn()
	t.Cleanup(func() { busy.Close() })
	require.NoError(t, busy.Ping(t.Context()).Err()) // takes the connection

	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	begun := time.Now()
	_, _, err := s.CompareAndSwap(ctx, creating("a", "x"))
	require.Less(t, time.Since(begun), moment+slack)
	refuses(t, err)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, busy.Close())
	create(t, s, creating("b", "x"))
	require.Empty(t, stored(t, s, "a"), "and it never comes")
}
