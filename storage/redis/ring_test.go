package redis_test

import (
	"context"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

// The limiter has a queue and a circuit breaker for each server.
func TestSilentServerOfARingFailsOnlyItsKeys(t *testing.T) {
	silent, working := servers.Redis(t), servers.Redis(t)
	ring := goredis.NewRing(&goredis.RingOptions{
		Addrs: map[string]string{"silent": silent.Addr(), "working": working.Addr()}, ContextTimeoutEnabled: true,
		HeartbeatFn: func(context.Context, *goredis.Client) bool { return true }, // no key moves to another server
	})
	t.Cleanup(func() { ring.Close() })
	limiter := newHourly(t, open(t, ring, ""), 1_000_000, 0)
	onWorking := keyOn(t, limiter, working)
	onSilent := keyOn(t, limiter, silent)
	silent.Pause()
	defer silent.Resume()
	load := startTraffic(t, limiter, onSilent)
	defer load.stop()
	for range 1000 {
		_, err := limiter.Allow(t.Context(), onWorking)
		require.NoError(t, err)
	}
	_, err := limiter.Allow(t.Context(), onSilent)
	require.ErrorIs(t, err, storage.ErrUnavailable)
}

// keyOn returns a key whose record is on a server.
func keyOn(t *testing.T, limiter *sluice.Limiter[string], server *servers.RedisServer) string {
	before := do(t, server, "DBSIZE")
	for i := 0; ; i++ {
		_, err := limiter.Allow(t.Context(), strconv.Itoa(i))
		require.NoError(t, err)
		if do(t, server, "DBSIZE") != before {
			return strconv.Itoa(i)
		}
	}
}
