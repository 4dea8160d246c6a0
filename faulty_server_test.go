package sluice_test

// These tests promise how long calls take, and which ones fail, if a server refuses connections, is slow, or holds locks.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
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

// A transaction of the application holds the row of a key for a long time. Calls for other keys succeed, and calls for this key
// fail with ErrContended. On a busy machine some get no answer at all. The circuit breaker stays closed.
func TestLockedRowStopsOnlyItsKey(t *testing.T) {
	functions, pool := openPostgres(t)
	swaps, err := postgres.New(pool, postgres.Options{NoFunctions: true, Table: "swaps"})
	require.NoError(t, err)
	require.NoError(t, swaps.Migrate(t.Context()))
	for name, store := range map[string]*postgres.Store{"with functions": functions, "without functions": swaps} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{Timeout: time.Minute}, store, rulesOf("gcra 1000000/s")...)
			require.True(t, must(t)(l.Allow(background, ann)).Allowed)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer tx.Rollback(background)
			lockRows(t, tx, postgres.DefaultTable, "swaps")

			var group, others sync.WaitGroup
			var refused, ended atomic.Int64
			for range 4 {
				group.Go(func() {
					for i := 0; i < 3 || ended.Load() == 0 && !t.Failed(); i++ {
						ctx, cancel := context.WithTimeout(background, time.Second)
						_, err := l.Allow(ctx, ann)
						cancel()
						require.Error(t, err)
						require.NotContains(t, err.Error(), "breaker")
						if !errors.Is(err, storage.ErrOutcomeUnknown) { // its write was in flight at the end
							require.ErrorIs(t, err, storage.ErrNotApplied)
						}
						if errors.Is(err, storage.ErrContended) {
							refused.Add(1)
						}
					}
				})
			}
			for caller := range 8 {
				others.Go(func() {
					for i := 0; i < 100 || refused.Load() < 12 && !t.Failed(); i++ { // for three timeouts of a second
						require.True(t, must(t)(l.Allow(background, call{user: fmt.Sprint(caller, i%50)})).Allowed)
					}
				})
			}
			others.Wait()
			ended.Store(1)
			group.Wait()
			require.NoError(t, tx.Rollback(background))
			require.True(t, must(t)(l.Allow(background, ann)).Allowed)
		})
	}
}

// lockRows locks the rows that tables have.
func lockRows(t *testing.T, tx pgx.Tx, tables ...string) {
	for _, table := range tables {
		_, err := tx.Exec(background, "SELECT FROM "+table+" FOR UPDATE")
		require.NoError(t, err)
	}
}

// Five processes use one row all the time. Other transactions lock it for longer than a batch waits, and keep two other rows locked:
// one that all can see, and one that is not committed yet. No call for the first row fails.
func TestShortLocksOfABusyRowDelayItsCalls(t *testing.T) {
	server := servers.Postgres(t)
	open := func() *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), server.DSN())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	limiterOn := func(db postgres.DB) *sluice.Limiter[call] {
		store, err := postgres.New(db, postgres.Options{})
		require.NoError(t, err)
		if _, ok := db.(*pgxpool.Pool); ok {
			require.NoError(t, store.Migrate(t.Context()))
		}
		return newLimiter(t, sluice.Options[call]{Timeout: 5 * time.Second}, store, rulesOf("gcra 1000000/s")...)
	}
	var limiters []*sluice.Limiter[call]
	for range 5 {
		limiters = append(limiters, limiterOn(open()))
	}
	locked, created := call{user: "locked"}, call{user: "created"}
	require.True(t, must(t)(limiters[0].Allow(background, locked)).Allowed)
	others := open()
	tx, err := others.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(background)
	lockRows(t, tx, postgres.DefaultTable)
	require.True(t, must(t)(limiterOn(tx).Allow(background, created)).Allowed)
	require.True(t, must(t)(limiters[0].Allow(background, ann)).Allowed)

	var group sync.WaitGroup
	var calls, ended atomic.Int64
	for _, l := range limiters {
		for range 16 {
			group.Go(func() {
				for ended.Load() == 0 && !t.Failed() {
					require.True(t, must(t)(l.Allow(background, ann)).Allowed)
					calls.Add(1)
				}
			})
		}
		for _, c := range []call{locked, created} {
			group.Go(func() {
				for ended.Load() == 0 && !t.Failed() {
					ctx, cancel := context.WithTimeout(background, time.Second)
					_, err := l.Allow(ctx, c)
					cancel()
					require.Error(t, err)
				}
			})
		}
	}
	for range 4 {
		enough := calls.Load() + 2000
		require.Eventually(t, func() bool { return calls.Load() >= enough || t.Failed() }, time.Minute, time.Millisecond)
		_, err := others.Exec(t.Context(), "SELECT pg_sleep(0.4) FROM (SELECT FROM "+postgres.DefaultTable+
			" WHERE position('ann'::bytea IN key) > 0 FOR UPDATE) AS found")
		require.NoError(t, err)
	}
	ended.Store(1)
	group.Wait()
}

// errRefused is the error of a store whose server refuses connections.
var errRefused = storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}))

func TestOnFailureAppliesSoonIfConnectionsAreRefused(t *testing.T) {
	for _, p := range failurePolicies {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			l := newLimiter(t, sluice.Options[call]{OnFailure: p, CircuitOpenAfter: -1}, store, rulesOf("gcra 9/m")...)
			r := reserve(t, l, ann, 3)
			store.err = errRefused
			took := func(do func() (sluice.Decision, error)) time.Duration {
				began := time.Now()
				d, err := do()
				require.ErrorIs(t, errors.Join(err, d.Err), errRefused)
				require.Equal(t, p != sluice.FailClosed, d.Degraded)
				return time.Since(began)
			}
			for name, do := range map[string]func() (sluice.Decision, error){
				"Allow": func() (sluice.Decision, error) { return l.Allow(background, ann) },
				"Wait":  func() (sluice.Decision, error) { return l.Wait(background, ann) },
				"Peek":  func() (sluice.Decision, error) { return l.Peek(background, ann) },
				"Reserve": func() (sluice.Decision, error) {
					_, d, err := l.Reserve(background, ann, 1)
					return d, err
				},
			} {
				if took := took(do); p == sluice.FailClosed {
					require.Equal(t, sluice.DefaultTimeout, took, name)
				} else {
					require.Less(t, took, 110*time.Millisecond, name)
				}
			}
			for name, do := range map[string]func() (sluice.Decision, error){ // they would be lost
				"Charge": func() (sluice.Decision, error) { return l.Charge(background, ann, 1) },
				"Refund": func() (sluice.Decision, error) { return l.Refund(background, ann, 1) },
				"Settle": func() (sluice.Decision, error) { return r.Settle(background, 1) },
			} {
				require.Equal(t, sluice.DefaultTimeout, took(do), name)
			}
		})
	}
}

// A policy that runs in Go takes two round trips for a decision. The callers of one key wait for each other, so they have no
// conflicts.
func TestManyCallersOfAPolicyInGoHaveNoConflicts(t *testing.T) {
	store, _ := openPostgres(t)
	policy := struct{ algo.Policy }{mustPolicy("gcra 1000000/s")} // it has no program
	l := newLimiter(t, sluice.Options[call]{Timeout: time.Minute}, store, sluice.Rule[call]{Name: "rule", Key: byUser, Policy: policy})
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 5 {
				d := must(t)(l.Allow(background, ann))
				require.True(t, d.Allowed)
				require.Equal(t, 1, d.Attempts)
			}
		})
	}
	group.Wait()
}
