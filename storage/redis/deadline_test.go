package redis_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// calls are all that can be asked of a store.
func calls(s *redis.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"swap": func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, creating("a", "late")); return err },
		"swap of two": func(ctx context.Context) error {
			_, _, err := s.CompareAndSwap(ctx, creating("b", "late"), creating("c", "late"))
			return err
		},
		"load":     func(ctx context.Context) error { _, err := s.Load(ctx, "a"); return err },
		"load now": func(ctx context.Context) error { _, _, err := s.LoadNow(ctx, "a"); return err },
	}
}

// patient clients would wait for their ReadTimeout, and then try again.
func patient(addr string) map[string]*goredis.Options {
	return map[string]*goredis.Options{
		"as it comes":           {Addr: addr, ReadTimeout: time.Minute},
		"ContextTimeoutEnabled": {Addr: addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: true},
	}
}

func TestCallsEndWithTheirDeadline(t *testing.T) {
	server := servers.Redis(t)
	for name, o := range patient(server.Addr()) {
		t.Run(name, func(t *testing.T) {
			client := goredis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			create(t, s, creating("warm", "x"))
			server.Pause()
			defer server.Resume()
			for call, do := range calls(s) {
				ctx, cancel := context.WithTimeout(t.Context(), moment)
				begun := time.Now()
				err := do(ctx)
				cancel()
				require.Less(t, time.Since(begun), moment+slack, call)
				require.ErrorIs(t, err, storage.ErrUnavailable, call)
			}
		})
	}
}

// What was sent when its caller left is in doubt; the server may apply it yet,
// and the store is as good as new.
func TestCallsEndWhenTheyAreCancelled(t *testing.T) {
	for name, o := range patient("") {
		t.Run(name, func(t *testing.T) {
			proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
			o.Addr = proxy.Addr()
			client := goredis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			for call, do := range calls(s) {
				create(t, s, creating("warm "+call, "x"))
				proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.LateRequest})
				ctx, cancelled := untilHit(t, proxy)
				err := do(ctx)
				require.Less(t, time.Since(<-cancelled), slack, call)
				require.ErrorIs(t, err, context.Canceled)
				lost(t, err)

				require.Eventually(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 }, long, time.Millisecond)
			}
			proxy.Plan()
			require.Equal(t, "late", stored(t, s, "a"))
			create(t, s, creating("z", "x"))
		})
	}
}

// Whoever leaves between two tries of the engine knows that nothing was sent; so one write
// must not be many tries of the client.
func TestAWriteDialsOnceIfTheClientDoes(t *testing.T) {
	dials := 0
	client := goredis.NewClient(&goredis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, syscall.ECONNREFUSED
	}})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, t.Name())
	for _, name := range []string{"swap", "swap of two"} {
		dials = 0
		err := calls(s)[name](t.Context())
		refuses(t, err)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, name)
		require.Equal(t, 1, dials, name)
	}
}
