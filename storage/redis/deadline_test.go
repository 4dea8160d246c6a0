package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// The client would wait for its ReadTimeout, a minute here, and then try again.
func TestCallsEndWithTheirContext(t *testing.T) {
	server := servers.Redis(t)
	for name, o := range map[string]*goredis.Options{
		"as it comes":           {Addr: server.Addr(), ReadTimeout: time.Minute},
		"ContextTimeoutEnabled": {Addr: server.Addr(), ReadTimeout: time.Minute, ContextTimeoutEnabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := goredis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			create(t, s, creating("warm", "x"))
			server.Pause()
			defer server.Resume()
			for call, do := range map[string]func(ctx context.Context) error{
				"swap": func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, creating("a", "x")); return err },
				"batch": func(ctx context.Context) error {
					return s.CompareAndSwapBatch(ctx, []storage.Swap{creating("b", "x")}, []storage.Swap{creating("c", "x")})[1].Err
				},
				"load": func(ctx context.Context) error { _, err := s.Load(ctx, "a"); return err },
				"now":  func(ctx context.Context) error { _, err := s.Now(ctx); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				begun := time.Now()
				err := do(ctx)
				cancel()
				require.Less(t, time.Since(begun), 5*time.Second, call)
				require.ErrorIs(t, err, storage.ErrUnavailable, call)
				require.NotErrorIs(t, err, storage.ErrNotApplied, call)
			}
		})
	}
}

// What was stuck when its caller left is applied by a server that goes on, or
// is not, as the error left open; the store is as good as new.
func TestAServerThatGoesOn(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClient(t, server.Addr()), "")
	create(t, s, creating("warm", "x"))
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := s.CompareAndSwap(ctx, creating("a", "late"))
	lost(t, err)
	server.Resume()
	require.Eventually(t, func() bool { return stored(t, s, "a") == "late" }, long, time.Millisecond)
	create(t, s, creating("b", "x"))
}
