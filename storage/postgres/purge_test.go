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

// lasting are swaps that create numbered keys, for a time.
func lasting(n int, ttl time.Duration) []storage.Swap {
	swaps := make([]storage.Swap, n)
	for i := range swaps {
		swaps[i] = creating(fmt.Sprint("key ", i))[0]
		swaps[i].TTL = ttl
	}
	return swaps
}

// apply makes swaps that must succeed.
func apply(t *testing.T, s *postgres.Store, swaps []storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// A decision on a record that is there is a HOT update, which writes no index.
func TestADecisionIsAHotUpdate(t *testing.T) {
	const records = 20 // a page has room for twice as many
	for name, c := range map[string]struct {
		from, to time.Duration
		age      string
		old      bool // what the second swap replaces
		hot      int
	}{
		"the same TTL":               {from: time.Hour, to: time.Hour, age: "0", old: true, hot: records},
		"a longer TTL":               {from: time.Hour, to: 2 * time.Hour, age: "0", old: true, hot: records},
		"for ever":                   {from: time.Hour, to: 0, age: "0", old: true, hot: records},
		"both for ever":              {from: 0, to: 0, age: "0", old: true, hot: records},
		"a shorter TTL":              {from: 2 * time.Hour, to: time.Hour, age: "0", old: true},
		"a shorter TTL, but later":   {from: 2 * time.Hour, to: time.Hour, age: "90 min", old: true, hot: records},
		"a TTL after none":           {from: 0, to: time.Hour, age: "0", old: true},
		"over what has expired":      {from: time.Hour, to: time.Hour, age: "2 hours", hot: records},
		"for ever over what expired": {from: time.Hour, to: 0, age: "2 hours", hot: records},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
			s, table := fresh(t, p)
			swaps := lasting(records, c.from)
			apply(t, s, swaps)
			_, err := p.Exec(ctx, "UPDATE "+table+" SET expires_at = expires_at - $1::text::interval, purge_at = purge_at - $1::text::interval", c.age)
			require.NoError(t, err)
			_, err = p.Exec(ctx, "VACUUM "+table) // makes room
			require.NoError(t, err)
			swaps = after(swaps)
			for i := range swaps {
				if swaps[i].TTL = c.to; !c.old {
					swaps[i].Old = 0
				}
			}
			tx := transaction(t, pool(t, shared.Postgres(t).DSN())) // a session that has counted nothing yet
			apply(t, inside(t, tx, table), swaps)
			var updated, hot int
			require.NoError(t, tx.QueryRow(ctx, "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) FROM CAST($1::text AS regclass) AS c", table).Scan(&updated, &hot))
			require.Equal(t, []int{records, c.hot}, []int{updated, hot})
		})
	}
}

// So is a decision of Run. One that is denied writes nothing.
func TestRunIsAHotUpdate(t *testing.T) {
	const records = 20
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
	for _, batch := range []func(*testing.T, ...string) *driver.Batch{asking, together} {
		s, table := fresh(t, p)
		var keys []string
		for i := range records {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		for range 2 { // the second uses up the keys
			_, err := p.Exec(ctx, "VACUUM "+table)
			require.NoError(t, err)
			s.Run(ctx, batch(t, keys...))
		}
		for _, want := range [][]int{{records, records}, {0, 0}} {
			tx := transaction(t, pool(t, shared.Postgres(t).DSN()))
			_, err := tx.Exec(ctx, "SELECT 1")
			require.NoError(t, err)
			b := batch(t, keys...)
			if want[0] > 0 { // as if a unit had come back
				b.Now = time.Now().Add(time.Hour)
			}
			inside(t, tx, table).Run(ctx, b)
			require.NoError(t, b.Err)
			var updated, hot int
			require.NoError(t, tx.QueryRow(ctx, "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) FROM CAST($1::text AS regclass) AS c", table).Scan(&updated, &hot))
			require.Equal(t, want, []int{updated, hot})
			require.NoError(t, tx.Rollback(ctx))
		}
	}
}

// watched is a database that calls begin before each statement of a purge.
type watched struct {
	*pgx.Conn
	begin func()
}

func (w *watched) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "DELETE") {
		w.begin()
	}
	return w.Conn.Query(ctx, sql, args...)
}

func watch(t *testing.T, table string, begin func()) *postgres.Store {
	conn, err := pgx.Connect(t.Context(), shared.Postgres(t).DSN())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	s, err := postgres.New(&watched{conn, begin}, postgres.Options{Table: table})
	require.NoError(t, err)
	return s
}

func number(t *testing.T, p *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, p.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// Records that were written since are filed under their new expiry, once, in bounded
// batches. They count as removed when they are.
func TestAPurgeFilesRecordsAgain(t *testing.T) {
	const records = 2*postgres.PurgeBatch + 50
	p := pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	apply(t, s, lasting(records, time.Hour))
	var filed []int
	watching := watch(t, table, func() {
		filed = append(filed, number(t, p, "SELECT count(*) FROM "+table+" WHERE purge_at = expires_at"))
	})
	purge := func(max, want int, wantFiled ...int) {
		t.Helper()
		filed = nil
		removed, err := watching.Purge(t.Context(), max)
		require.NoError(t, err)
		require.Equal(t, want, removed)
		require.Equal(t, wantFiled, filed)
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

// Here each record is due again before each statement. The purge ends all the same.
func TestAPurgeEndsWhileRecordsComeDueAgain(t *testing.T) {
	p := pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	apply(t, s, lasting(postgres.PurgeBatch, time.Hour))
	statements := 0
	watching := watch(t, table, func() {
		if statements++; statements > 20 {
			t.Fatal("the purge goes on and on")
		}
		_, err := p.Exec(t.Context(), "UPDATE "+table+" SET purge_at = clock_timestamp()")
		require.NoError(t, err)
	})
	removed, err := watching.Purge(t.Context(), 1)
	require.NoError(t, err)
	require.Zero(t, removed)
	require.Equal(t, 2, statements, "one for the batch, and one to see that there is no more")
}

// Writers and purges meet at the same records, which are always due and never expired. No
// purge removes one, or brings an older version back.
func TestPurgesAmongWriters(t *testing.T) {
	const writers, each, times = 4, 5, 30
	p := pool(t, shared.Postgres(t).DSN()+"&pool_max_conns=8")
	s, table := fresh(t, p)
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
						swap, n = after(swap), n+1
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

func TestATableOfSomebodyElse(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
	const remedy = `column "purge_at" does not exist (SQLSTATE 42703); name another table in Options.Table or another database, or drop this one if it holds nothing but limits, and call Store.Migrate`
	table := fmt.Sprint("former_", tables.Add(1))
	_, err := p.Exec(ctx, "CREATE TABLE "+table+" (key bytea NOT NULL PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL, expires_at timestamptz NOT NULL)")
	require.NoError(t, err)
	tx := transaction(t, p)
	for _, db := range []postgres.DB{p, tx} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		err = s.Migrate(ctx)
		require.ErrorContains(t, err, remedy)
		require.ErrorContains(t, err, table)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
	}
	_, err = tx.Exec(ctx, "SELECT 1")
	require.NoError(t, err, "the caller's transaction goes on")
}
