package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// creatingFor returns swaps that create n records with a TTL.
func creatingFor(n int, ttl time.Duration) []storage.Swap {
	swaps := make([]storage.Swap, n)
	for i := range swaps {
		swaps[i] = creating(fmt.Sprint("key ", i))[0]
		swaps[i].TTL = ttl
	}
	return swaps
}

// swap makes swaps, which must succeed.
func swap(t *testing.T, s *postgres.Store, swaps []storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// updates returns how many rows of a table a transaction has updated, and how many of them with HOT updates.
func updates(t *testing.T, tx pgx.Tx, table string) []int {
	t.Helper()
	const sql = "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) FROM CAST($1::text AS regclass) AS c"
	var updated, hot int
	require.NoError(t, tx.QueryRow(t.Context(), sql, table).Scan(&updated, &hot))
	return []int{updated, hot}
}

// A HOT update writes no index.
func TestSwapOfAnExistingRecordIsAHotUpdate(t *testing.T) {
	const records = 20 // a page has space for twice as many
	for name, c := range map[string]struct {
		from, to time.Duration
		age      string
		old      bool // the second swap expects the first record
		hot      int
	}{
		"the same TTL":          {from: time.Hour, to: time.Hour, age: "0", old: true, hot: records},
		"for ever":              {from: time.Hour, to: 0, age: "0", old: true, hot: records},
		"a shorter TTL":         {from: 2 * time.Hour, to: time.Hour, age: "0", old: true},
		"a TTL after none":      {from: 0, to: time.Hour, age: "0", old: true},
		"over what has expired": {from: time.Hour, to: time.Hour, age: "2 hours", hot: records},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
			s, table := newStore(t, p)
			swaps := creatingFor(records, c.from)
			swap(t, s, swaps)
			_, err := p.Exec(ctx, "UPDATE "+table+" SET expires_at = expires_at - $1::text::interval, purge_at = purge_at - $1::text::interval", c.age)
			require.NoError(t, err)
			_, err = p.Exec(ctx, "VACUUM "+table) // frees space in the page
			require.NoError(t, err)
			swaps = updating(swaps)
			for i := range swaps {
				if swaps[i].TTL = c.to; !c.old {
					swaps[i].Old = 0
				}
			}
			tx := begin(t, newPool(t, shared.Postgres(t).DSN())) // a session whose counters are 0
			swap(t, storeIn(t, tx, table), swaps)
			require.Equal(t, []int{records, c.hot}, updates(t, tx, table))
		})
	}
}

// A denied request writes nothing.
func TestRunOnExistingRecordsIsAHotUpdate(t *testing.T) {
	const records = 20
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	for _, batch := range []func(*testing.T, ...string) *driver.Batch{requestEach, oneRequest} {
		s, table := newStore(t, p)
		var keys []string
		for i := range records {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		for range 2 { // the second batch uses up the limits
			_, err := p.Exec(ctx, "VACUUM "+table)
			require.NoError(t, err)
			s.Run(ctx, batch(t, keys...))
		}
		for _, want := range [][]int{{records, records}, {0, 0}} {
			tx := begin(t, newPool(t, shared.Postgres(t).DSN()))
			_, err := tx.Exec(ctx, "SELECT 1")
			require.NoError(t, err)
			b := batch(t, keys...)
			if want[0] > 0 { // after a refill
				b.Now = time.Now().Add(time.Hour)
			}
			require.NoError(t, s.RunIn(ctx, tx, b))
			require.Equal(t, want, updates(t, tx, table))
			require.NoError(t, tx.Rollback(ctx))
		}
	}
}

// watchedDB calls begin before each statement of Purge.
type watchedDB struct {
	*pgx.Conn
	begin func()
}

func (w *watchedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "DELETE") {
		w.begin()
	}
	return w.Conn.Query(ctx, sql, args...)
}

func newWatchedStore(t *testing.T, table string, begin func()) *postgres.Store {
	conn, err := pgx.Connect(t.Context(), shared.Postgres(t).DSN())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	s, err := postgres.New(&watchedDB{conn, begin}, postgres.Options{Table: table})
	require.NoError(t, err)
	return s
}

// number returns the number that a query selects.
func number(t *testing.T, p *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, p.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// If a due record has a later expiry, Purge sets its purge_at to that expiry, in batches of a limited
// size.
func TestPurgeReschedulesRecordsWithALaterExpiry(t *testing.T) {
	const records = 2*postgres.PurgeBatch + 50
	p := newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	swap(t, s, creatingFor(records, time.Hour))
	var rescheduled []int
	watching := newWatchedStore(t, table, func() {
		rescheduled = append(rescheduled, number(t, p, "SELECT count(*) FROM "+table+" WHERE purge_at = expires_at"))
	})
	purge := func(max, want int, wantRescheduled ...int) {
		t.Helper()
		rescheduled = nil
		removed, err := watching.Purge(t.Context(), max)
		require.NoError(t, err)
		require.Equal(t, want, removed)
		require.Equal(t, wantRescheduled, rescheduled)
	}
	purge(1, 0, records) // nothing is due yet
	_, err := p.Exec(t.Context(), "UPDATE "+table+" SET purge_at = purge_at - interval '2 hours'")
	require.NoError(t, err)
	purge(1, 0, 0, postgres.PurgeBatch, 2*postgres.PurgeBatch)
	purge(1, 0, records)
	_, err = p.Exec(t.Context(), "UPDATE "+table+" SET purge_at = purge_at - interval '2 hours', expires_at = expires_at - interval '2 hours'")
	require.NoError(t, err)
	purge(postgres.PurgeBatch+1, postgres.PurgeBatch+1, records, records-postgres.PurgeBatch)
	purge(records, postgres.PurgeBatch+49, postgres.PurgeBatch+49, 49)
	require.Zero(t, number(t, p, "SELECT count(*) FROM "+table))
}

// The records are always due and never expired. Purge must not remove one or restore an old version.
func TestPurgeDoesNotHarmConcurrentWrites(t *testing.T) {
	const writers, each, times = 4, 5, 30
	p := newPool(t, shared.Postgres(t).DSN()+"&pool_max_conns=8")
	s, table := newStore(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	purged := make(chan error, 1)
	go func() {
		var all error
		for ctx.Err() == nil {
			_, err := p.Exec(t.Context(), "UPDATE "+table+" SET purge_at = '2001-01-01' WHERE key IN (SELECT key FROM "+table+" FOR UPDATE SKIP LOCKED)")
			n, err2 := s.Purge(t.Context(), 1000)
			if all = errors.Join(all, err, err2); n != 0 {
				all = errors.Join(all, fmt.Errorf("removed %d", n))
			}
		}
		purged <- all
	}()
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				swap := creating(fmt.Sprint(w, "/", i))
				for n := 0; n < times && errs[w] == nil; {
					swap[0].TTL = time.Hour
					_, swapped, err := s.CompareAndSwap(t.Context(), swap...)
					switch {
					case swapped:
						swap, n = updating(swap), n+1
					case !errors.Is(err, storage.ErrContended):
						errs[w] = fmt.Errorf("swapped %v, error %w", swapped, err)
					}
				}
			}
		})
	}
	group.Wait()
	cancel()
	require.NoError(t, <-purged)
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, writers*each, number(t, p, "SELECT count(*) FROM "+table))
}

func TestTableWithOtherColumnsIsRefused(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	const remedy = `column "purge_at" does not exist (SQLSTATE 42703); set Options.Table to another name, use another database, or drop this table if it holds only limits; then call Store.Migrate`
	table := fmt.Sprint("former_", tables.Add(1))
	_, err := p.Exec(ctx, "CREATE TABLE "+table+" (key bytea NOT NULL PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL, expires_at timestamptz NOT NULL)")
	require.NoError(t, err)
	tx := begin(t, p)
	for _, db := range []postgres.DB{p, tx} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		err = s.Migrate(ctx)
		require.ErrorContains(t, err, remedy)
		require.ErrorContains(t, err, table)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
	}
	_, err = tx.Exec(ctx, "SELECT 1")
	require.NoError(t, err, "the caller's transaction stays usable")
}
