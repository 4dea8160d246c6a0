package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

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
