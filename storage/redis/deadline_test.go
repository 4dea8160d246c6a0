package redis_test

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// calls are the calls that notice cancellation. Run is not one of them.
func calls(s *redis.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"swap": func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, creating("a", "late")); return err },
		"swap of two": func(ctx context.Context) error {
			_, _, err := s.CompareAndSwap(ctx, creating(textOf("g", "a"), "late"), creating(textOf("g", "b"), "late"))
			return err
		},
		"load": func(ctx context.Context) error { _, _, err := s.Load(ctx, "a"); return err },
	}
}

func TestCallsEndAtTheirDeadline(t *testing.T) {
	server := servers.Redis(t)
	_, p := programOf(t, algo.Per(2, time.Hour))
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
			runOK(t, s, oneRequest(p, "warm"))
			all := calls(s)
			all["run"] = func(ctx context.Context) error {
				b, other := oneRequest(p, "a"), oneRequest(p, "b")
				s.Run(ctx, b, other)
				assert.Error(t, other.Err)
				return b.Err
			}
			server.Pause()
			defer server.Resume()
			var running sync.WaitGroup
			for call, do := range all {
				running.Go(func() {
					const timeout = 200 * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					begun := time.Now()
					err := do(ctx)
					assert.Less(t, time.Since(begun), timeout+slack, call)
					assert.ErrorIs(t, err, storage.ErrUnavailable, call)
				})
			}
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
			for call, do := range calls(s) {
				swap(t, s, creating("warm "+call, "x"))
				proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.LateRequest})
				ctx, cancelled := cancelledByFault(t, proxy)
				err := do(ctx)
				require.Less(t, time.Since(<-cancelled), slack, call)
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

// cancelledByFault returns a context that is cancelled after the proxy's fault, or when the proxy
// holds a message.
func cancelledByFault(t *testing.T, proxy *faultproxy.Proxy) (ctx context.Context, cancelled <-chan time.Time) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	at := make(chan time.Time, 1)
	go func() {
		for ctx.Err() == nil && proxy.Exchanges() == 0 {
			time.Sleep(time.Millisecond)
		}
		at <- time.Now()
		cancel()
	}()
	return ctx, at
}
