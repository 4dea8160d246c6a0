package redis_test

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// calls are the calls that notice cancellation. Run is not one of them.
var calls = map[string]func(context.Context, *redis.Store) error{
	"swap": func(ctx context.Context, s *redis.Store) error {
		_, _, err := s.CompareAndSwap(ctx, creating("a", "late"))
		return err
	},
	"swap of two": func(ctx context.Context, s *redis.Store) error {
		_, _, err := s.CompareAndSwap(ctx, creating(textOf("g", "a"), "late"), creating(textOf("g", "b"), "late"))
		return err
	},
	"load": func(ctx context.Context, s *redis.Store) error { _, _, err := s.Load(ctx, "a"); return err },
}

func TestCallsEndAtTheirDeadline(t *testing.T) {
	server := servers.Redis(t)
	single := func(o goredis.Options) goredis.UniversalClient {
		o.Addr = server.Addr()
		return goredis.NewClient(&o)
	}
	for name, client := range map[string]goredis.UniversalClient{
		"defaults":                     single(goredis.Options{}),
		"no deadlines":                 single(goredis.Options{ReadTimeout: -2, WriteTimeout: -2}),
		"short timeouts, many retries": single(goredis.Options{ReadTimeout: 90 * time.Millisecond, WriteTimeout: 90 * time.Millisecond, MaxRetries: 1000}),
		"ContextTimeoutEnabled":        single(goredis.Options{ReadTimeout: time.Minute, ContextTimeoutEnabled: true}),
		"cluster":                      goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: oneNode(server.Addr())}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			runOK(t, s, oneRequest("warm"))
			server.Pause()
			defer server.Resume()
			var running sync.WaitGroup
			ends := func(call string, do func(context.Context, *redis.Store) error) {
				running.Go(func() {
					const timeout = 200 * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					begun := time.Now()
					err := do(ctx, s)
					assert.Less(t, time.Since(begun), timeout+slack, call)
					assert.ErrorIs(t, err, storage.ErrUnavailable, call)
				})
			}
			for call, do := range calls {
				ends(call, do)
			}
			ends("run", func(ctx context.Context, s *redis.Store) error {
				b, other := oneRequest("a"), oneRequest("b")
				s.Run(ctx, b, other)
				assert.Error(t, other.Err)
				return b.Err
			})
			running.Wait()
		})
	}
}

// The server may apply a write after the call was cancelled. The store stays usable.
func TestCallsEndWhenTheyAreCancelled(t *testing.T) {
	for name, ownDeadline := range map[string]bool{"defaults": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
			s := open(t, newClientWith(t, goredis.Options{Addr: proxy.Addr(), ReadTimeout: time.Minute, ContextTimeoutEnabled: ownDeadline}), t.Name())
			for call, do := range calls {
				swap(t, s, creating("warm "+call, "x"))
				proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.LateRequest})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				failed := make(chan error, 1)
				go func() { failed <- do(ctx, s) }()
				waitFor(t, func() bool { return proxy.Exchanges() > 0 })
				cancel()
				cancelled := time.Now()
				err := <-failed
				require.Less(t, time.Since(cancelled), slack, call)
				require.ErrorIs(t, err, context.Canceled)
				requireUnknown(t, err)
				waitFor(t, func() bool { proxy.Release(); return proxy.Hits() == 1 })
			}
			proxy.Plan()
			require.Equal(t, "late", stored(t, s, "a"))
			swap(t, s, creating("z", "x"))
		})
	}
}
