package sluice_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
)

// slowDial makes connections over a slow link: a new one takes longer than the timeout of the limiters.
func slowDial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-time.After(150 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return slowConn{conn}, err
}

type slowConn struct{ net.Conn }

// Read waits for a reply. The first statement on a connection needs two of them, and that takes longer than the timeout.
func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(12 * time.Millisecond)
	return n, err
}

// If the timeout is shorter than the time for a new connection, the first calls fail. But they leave a connection for later ones.
func TestShortTimeoutLocksNobodyOut(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: servers.Redis(t).Addr(), Dialer: slowDial, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	redisStore, err := redis.New(client, redis.Options{})
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(servers.Postgres(t).DSN())
	require.NoError(t, err)
	config.ConnConfig.DialFunc = slowDial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for name, o := range map[string]postgres.Options{"PostgreSQL": {Table: "functions"}, "PostgreSQL without functions": {Table: "swaps", NoFunctions: true}} {
		store, err := postgres.New(pool, o)
		require.NoError(t, err)
		require.NoError(t, store.Migrate(t.Context()))
		t.Run(name, func(t *testing.T) { pool.Reset(); requireNotLockedOut(t, store, 100*time.Millisecond) })
	}
	t.Run("Redis", func(t *testing.T) { requireNotLockedOut(t, redisStore, 20*time.Millisecond) })
}

func requireNotLockedOut(t *testing.T, store storage.Store, timeout time.Duration) {
	l := newLimiter(t, sluice.Options[call]{Timeout: timeout}, store, rulesOf("gcra 1000000/s")...)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			require.Eventually(t, func() bool {
				for range 5 {
					if _, err := l.Allow(background, call{user: fmt.Sprint(i)}); err != nil {
						return false
					}
				}
				return true
			}, 10*time.Second, time.Millisecond)
		})
	}
	group.Wait()
}
