// The tests of this package promise:
//
//   - The store obeys the laws of package storagetest with prepared statements, in text format and
//     behind PgBouncer (laws_test.go).
//   - A swap and a batch are one round trip each, find rows by their keys, update existing rows without
//     writing an index, and work behind a pooler that loses prepared statements (statements_test.go).
//   - Whatever happens to a message, errors report correctly whether a write was applied
//     (laws_test.go, failure_test.go).
//   - A row that the table drops, changes or hides is an error (dropped_write_test.go).
//   - Concurrent statements do not deadlock and lose no write. A call ends shortly before its deadline
//     (lock_test.go).
//   - A store in a transaction of the caller commits or rolls back with it (lock_test.go).
//   - Migrate creates what is missing, once, next to the table (migrate_test.go). Purge removes only
//     expired records (purge_test.go).
package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

var (
	shared servers.Shared
	tables atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.PostgresPrograms)) }

const (
	slack       = time.Second      // how late a call on a busy machine may end
	longTimeout = 20 * time.Second // no call reaches it
)

// newPool returns a pool on the shared server. settings are those of its sessions, such as "&search_path=x".
func newPool(t *testing.T, settings string) *pgxpool.Pool {
	return newPoolAt(t, shared.Postgres(t).DSN()+settings)
}

func newPoolAt(t *testing.T, dsn string, edits ...func(*pgxpool.Config)) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	for _, edit := range edits {
		edit(config)
	}
	p, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// storeOn returns a store whose table may be missing.
func storeOn(t *testing.T, db postgres.DB, o postgres.Options) *postgres.Store {
	s, err := postgres.New(db, o)
	require.NoError(t, err)
	return s
}

// open returns a store after a Migrate.
func open(t *testing.T, db postgres.DB, o postgres.Options) *postgres.Store {
	t.Helper()
	s := storeOn(t, db, o)
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

// newStore returns a store on a new table, and the name of the table. Its lock timeout is so long that only a deadlock can
// refuse a request, and not a busy machine. The server detects a deadlock in a second.
func newStore(t *testing.T, p *pgxpool.Pool) (*postgres.Store, string) {
	table := fmt.Sprint("table_", tables.Add(1))
	s := open(t, p, postgres.Options{Table: table})
	s.SetLockTimeout(time.Minute)
	return s, table
}

// newSchema creates a schema and returns its name.
func newSchema(t *testing.T, db postgres.DB) string {
	name := fmt.Sprint("schema_", tables.Add(1))
	exec(t, db, "CREATE SCHEMA "+name)
	return name
}

func exec(t *testing.T, db postgres.DB, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
}

// selected returns the value that a query selects.
func selected[T any](t *testing.T, db postgres.DB, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(context.Background(), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

func begin(t *testing.T, p *pgxpool.Pool) pgx.Tx {
	tx, err := p.Begin(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// storeIn returns a store on a transaction.
func storeIn(t *testing.T, tx pgx.Tx, table string) *postgres.Store {
	return storeOn(t, tx, postgres.Options{Table: table})
}

// creating returns swaps that create records.
func creating(keys ...string) []storage.Swap {
	swaps := make([]storage.Swap, len(keys))
	for i, key := range keys {
		swaps[i] = storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte("new")}}
	}
	return swaps
}

// updating returns swaps that replace the records of other swaps.
func updating(swaps []storage.Swap) []storage.Swap {
	next := slices.Clone(swaps)
	for i, s := range swaps {
		next[i] = creating(s.Key)[0]
		next[i].Old = s.New.Version
	}
	return next
}

// swap makes swaps, which must succeed.
func swap(t *testing.T, s *postgres.Store, swaps []storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// existing returns those keys that have a record.
func existing(t *testing.T, s *postgres.Store, keys ...string) (found []string) {
	t.Helper()
	records, _, err := s.Load(t.Context(), keys...)
	require.NoError(t, err)
	for i, r := range records {
		if r.Version != 0 {
			found = append(found, keys[i])
		}
	}
	return found
}

// twoAnHour returns the policy of the batches below, and its program.
func twoAnHour() (algo.Policy, *algo.Program) {
	policy, _ := gcra.New(gcra.Options{Limit: algo.Per(2, time.Hour)})
	p, _ := policy.Program()
	return policy, &p
}

// requestEach returns a batch with a request for a unit of each key. The limit of a key is 2.
func requestEach(keys ...string) *driver.Batch {
	_, p := twoAnHour()
	b := &driver.Batch{Version: storage.NewVersion(), Keys: keys}
	for i := range keys {
		b.Requests = append(b.Requests, driver.Request{Times: 1, Uses: []driver.Use{{Key: i, Cost: 1, Program: p}}})
	}
	return b
}

// setProgram sets the program of all uses of a batch.
func setProgram(b *driver.Batch, p *algo.Program) {
	for _, r := range b.Requests {
		for i := range r.Uses {
			r.Uses[i].Program = p
		}
	}
}

// oneRequest returns a batch with one request for a unit of each key.
func oneRequest(keys ...string) *driver.Batch {
	b := requestEach(keys...)
	all := driver.Request{Times: 1}
	for _, r := range b.Requests {
		all.Uses = append(all.Uses, r.Uses...)
	}
	b.Requests = []driver.Request{all}
	return b
}

// run runs batches, which must succeed.
func run(t *testing.T, s *postgres.Store, batches ...*driver.Batch) {
	t.Helper()
	s.Run(t.Context(), batches...)
	for _, b := range batches {
		require.NoError(t, b.Err)
		require.Nil(t, b.KeyErr)
	}
}

func appliedOf(b *driver.Batch) (all []int) {
	for _, r := range b.Requests {
		all = append(all, r.Applied)
	}
	return all
}

// callAll calls every method of a store that sends a statement, and returns the errors.
func callAll(ctx context.Context, s *postgres.Store, key string) (errs []error) {
	for _, b := range []*driver.Batch{requestEach(key), requestEach(key, "shared"), oneRequest(key, "shared")} {
		if s.Runs(b.Programs()[0]) { // the DB is a pool
			s.Run(ctx, b)
			errs = append(append(errs, b.Err), b.KeyErr...)
		}
	}
	_, _, load := s.Load(ctx, key)
	two := creating(key+" swapped", key+" swapped too")
	_, _, create := s.CompareAndSwap(ctx, two...)
	_, _, replace := s.CompareAndSwap(ctx, updating(two)...)
	_, purge := s.Purge(ctx, 1)
	_, _, list := s.List(ctx, "", "", 1)
	return append(errs, s.Migrate(ctx), load, create, replace, purge, list)
}

// requireKinds checks which of three errors err matches: exactly the listed ones.
func requireKinds(t *testing.T, err error, kinds ...error) {
	t.Helper()
	require.Error(t, err)
	for _, kind := range []error{storage.ErrContended, storage.ErrUnavailable, storage.ErrNotApplied} {
		if slices.Contains(kinds, kind) {
			require.ErrorIs(t, err, kind)
		} else {
			require.NotErrorIs(t, err, kind)
		}
	}
}

// requireLimits requires that a limiter on s denies, and allows again after a reset.
func requireLimits(t *testing.T, s *postgres.Store) {
	t.Helper()
	limiter, err := sluice.Options[string]{Timeout: longTimeout}.New(s, sluice.PerKey("gcra 1/h"))
	require.NoError(t, err)
	for _, allowed := range []bool{true, false, true} {
		d, err := limiter.Allow(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, allowed, d.Allowed)
		if !allowed {
			require.NoError(t, limiter.Reset(t.Context(), "ann"))
		}
	}
}
