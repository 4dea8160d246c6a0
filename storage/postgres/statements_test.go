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
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// newCountedPool returns a pool with one open connection, and the proxy that counts its messages.
func newCountedPool(t *testing.T, settings string) (*pgxpool.Pool, *faultproxy.Proxy) {
	proxy := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	p := newPoolWithoutPings(t, proxy, "&pool_max_conns=1"+settings)
	require.NoError(t, p.Ping(t.Context()))
	return p, proxy
}

// countSwap returns how many round trips a swap takes, and whether it was made.
func countSwap(t *testing.T, proxy *faultproxy.Proxy, s *postgres.Store, swaps ...storage.Swap) (trips int, swapped bool) {
	t.Helper()
	proxy.Plan()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	return proxy.Exchanges(), swapped
}

// The first statement of its kind on a connection takes two round trips if statements are prepared.
func TestSwapAndBatchAreOneRoundTripEach(t *testing.T) {
	for mode, first := range map[string]int{"cache_statement": 2, "cache_describe": 2, "exec": 1} {
		t.Run(mode, func(t *testing.T) {
			p, proxy := newCountedPool(t, "&default_query_exec_mode="+mode)
			s, _ := newStore(t, p)
			two, many := creating("a", "b"), creating(numbered(64)...)
			for _, c := range []struct {
				name    string
				swaps   []storage.Swap
				trips   int
				swapped bool
			}{
				{"the first", creating("first"), first, true},
				{"a creation", creating("one"), 1, true},
				{"a conflict", creating("one"), 1, false},
				{"a conflict, and a key that no record has", creating("one", "absent"), 1, false},
				{"two keys", two, 1, true},
				{"two keys, again", updating(two), 1, true},
				{"a conflict of two keys", updating(two), 1, false},
				{"many keys", many, 1, true},
				{"many keys, again", updating(many), 1, true},
			} {
				trips, swapped := countSwap(t, proxy, s, c.swaps...)
				require.Equal(t, c.trips, trips, c.name)
				require.Equal(t, c.swapped, swapped, c.name)
			}
			for i, b := range []*driver.Batch{requestEach("x", "y"), requestEach("x", "z"), oneRequest("x", "y"), oneRequest("e")} {
				proxy.Plan()
				run(t, s, b)
				require.Equal(t, map[bool]int{true: first, false: 1}[i == 0], proxy.Exchanges())
			}
		})
	}
}

// A swap that creates several keys needs a savepoint, whose begin and end are round trips.
func TestSwapInATransactionIsOneOrThreeRoundTrips(t *testing.T) {
	p, proxy := newCountedPool(t, "")
	_, table := newStore(t, p)
	s := storeIn(t, begin(t, p), table)
	countSwap(t, proxy, s, creating("first")...)
	two := creating("a", "b")
	for i, swaps := range [][]storage.Swap{creating("one"), two, updating(two)} {
		trips, _ := countSwap(t, proxy, s, swaps...)
		require.Equal(t, []int{1, 3, 1}[i], trips)
	}
}

// Statements read only the rows of their keys, or those that they purge. A connection keeps the plans while the table grows, so a
// plan must not scan the table even if it was made for a few rows, which a scan would find faster.
func TestStatementsReadOnlyTheRowsOfTheirKeys(t *testing.T) {
	for _, mode := range []string{"auto", "force_generic_plan", "force_custom_plan"} {
		p := newPool(t, "&plan_cache_mode="+mode)
		s, table := newStore(t, p)
		tx := begin(t, p)
		ours := storeIn(t, tx, table)
		rowsRead := func() int {
			return selected[int](t, tx, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = $1::text::regclass", table)
		}
		fill := func(rows int) string {
			return fmt.Sprintf(`INSERT INTO %s SELECT convert_to('key ' || i, 'UTF8'), i, '', 'infinity', 'infinity' FROM generate_series(0, %d) i
				ON CONFLICT DO NOTHING`, table, rows)
		}
		for i, prepare := range []string{
			"", // the table is empty
			fill(10_000),
			"UPDATE " + table + " SET expires_at = '2001-01-01', purge_at = '2001-01-01'",
			"ANALYZE " + table,
			"TRUNCATE " + table + "; " + fill(5_000) + "; ANALYZE " + table,
			"TRUNCATE " + table + "; " + fill(2) + "; ANALYZE " + table,
			fill(5_000),
		} {
			exec(t, tx, prepare, pgx.QueryExecModeSimpleProtocol)
			plannedForFew := i > 4 // then other statements scan the table until the next ANALYZE
			reads := func(most int, do func()) {
				t.Helper()
				before := rowsRead()
				do()
				require.LessOrEqual(t, rowsRead()-before, most, "%s, after %s", mode, prepare)
			}
			for range 6 { // the server plans the first five executions separately
				for _, n := range []int{1, 2, 64} {
					keys := numbered(n)
					for _, b := range []*driver.Batch{requestEach(keys...), oneRequest(keys...)} {
						reads(2*n, func() { require.NoError(t, s.RunIn(t.Context(), tx, b)) })
					}
					if plannedForFew {
						continue
					}
					swaps := creating(keys...)
					reads(2*n, func() {
						records, _, err := ours.Load(t.Context(), keys...)
						require.NoError(t, err)
						for i, r := range records {
							swaps[i].Old = r.Version
						}
					})
					reads(2*n, func() { swap(t, ours, swaps) })
				}
				if !plannedForFew {
					reads(3000, func() {
						_, err := ours.Purge(t.Context(), 1000)
						require.NoError(t, err)
					})
				}
			}
		}
	}
}

// numbered returns n keys.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	return keys
}

// creatingFor returns swaps that create n records with a TTL.
func creatingFor(n int, ttl time.Duration) []storage.Swap {
	swaps := creating(numbered(n)...)
	for i := range swaps {
		swaps[i].TTL = ttl
	}
	return swaps
}

// updates returns how many rows of a table a transaction has updated, and how many of them with HOT updates.
func updates(t *testing.T, tx pgx.Tx, table string) []int {
	t.Helper()
	return selected[[]int](t, tx, "SELECT ARRAY[pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)] FROM CAST($1::text AS regclass) AS c", table)
}

// A HOT update writes no index.
func TestSwapOfAnExistingRecordIsAHotUpdate(t *testing.T) {
	const records, hour = 20, time.Hour // a page has space for twice as many
	for name, c := range map[string]struct {
		from, to time.Duration
		age      string
		hot      int
	}{
		"the same TTL":          {from: hour, to: hour, age: "0", hot: records},
		"for ever":              {from: hour, to: 0, age: "0", hot: records},
		"a shorter TTL":         {from: 2 * hour, to: hour, age: "0"},
		"a TTL after none":      {from: 0, to: hour, age: "0"},
		"over what has expired": {from: hour, to: hour, age: "2 hours", hot: records},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, "")
			s, table := newStore(t, p)
			swaps := creatingFor(records, c.from)
			swap(t, s, swaps)
			exec(t, p, "UPDATE "+table+" SET expires_at = expires_at - $1::text::interval, purge_at = purge_at - $1::text::interval", c.age)
			exec(t, p, "VACUUM "+table) // frees space in the page
			swaps = updating(swaps)
			for i := range swaps {
				if swaps[i].TTL = c.to; c.age != "0" {
					swaps[i].Old = 0
				}
			}
			tx := begin(t, newPool(t, "")) // a session whose counters are 0
			swap(t, storeIn(t, tx, table), swaps)
			require.Equal(t, []int{records, c.hot}, updates(t, tx, table))
		})
	}
}

// A denied request writes nothing.
func TestRunOnExistingRecordsIsAHotUpdate(t *testing.T) {
	const records = 20
	p := newPool(t, "")
	for _, batch := range []func(...string) *driver.Batch{requestEach, oneRequest} {
		s, table := newStore(t, p)
		keys := numbered(records)
		for range 2 { // the second batch uses up the limits
			exec(t, p, "VACUUM "+table)
			run(t, s, batch(keys...))
		}
		for _, want := range [][]int{{records, records}, {0, 0}} {
			tx := begin(t, newPool(t, ""))
			exec(t, tx, "SELECT 1")
			b := batch(keys...)
			if want[0] > 0 { // after a refill
				b.Now = time.Now().Add(time.Hour)
			}
			require.NoError(t, s.RunIn(t.Context(), tx, b))
			require.Equal(t, want, updates(t, tx, table))
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

// PgBouncer gives a connection of the server to each client in turn. So a statement that pgx has
// prepared exists already, or does not exist. A client that uses unnamed statements may find another one.
func TestEveryModeOfPgxWorksBehindPgBouncer(t *testing.T) {
	for _, mode := range []string{"", "&default_query_exec_mode=describe_exec", "&default_query_exec_mode=cache_describe"} {
		t.Run("mode "+mode, func(t *testing.T) {
			const processes, times = 5, 8
			bouncer, table := servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 3"), fmt.Sprint("pooler_", tables.Add(1))
			var group sync.WaitGroup
			for i := range processes {
				s := storeOn(t, newPoolAt(t, bouncer.DSN()+mode), postgres.Options{Table: table})
				s.SetLockTimeout(time.Minute)
				group.Go(func() {
					assert.NoError(t, s.Migrate(context.Background()))
					for n := range times {
						assert.NoError(t, errors.Join(callAll(context.Background(), s, fmt.Sprint(i, "/", n))...))
					}
				})
			}
			group.Wait()
		})
	}
}

// The server notices a wrong statement only by the number of its parameters.
func TestEachStatementHasAnotherNumberOfParameters(t *testing.T) {
	p := newPool(t, "")
	s, _ := newStore(t, p)
	tx, of := begin(t, p), map[int]string{}
	for _, text := range s.Statements() {
		d, err := tx.Prepare(t.Context(), text, text)
		require.NoError(t, err)
		require.Empty(t, of[len(d.ParamOIDs)], text)
		of[len(d.ParamOIDs)] = text
	}
}

// A failed statement ends a transaction of the caller, so the store cannot send it again.
func TestErrorOfALostStatementHasTheRemedy(t *testing.T) {
	const remedy = "default_query_exec_mode=exec"
	bouncer := servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 1")
	first, table := newStore(t, newPoolAt(t, bouncer.DSN()))
	existing(t, first, "a")
	_, _, err := storeIn(t, begin(t, newPoolAt(t, bouncer.DSN())), table).Load(t.Context(), "a")
	requireEnded(t, err, "42P05")
	require.ErrorContains(t, err, remedy)

	for code, routine := range map[string]string{"42P05": "", "26000": "", "08P01": "exec_bind_message", "25P02": "exec_bind_message"} {
		s := storeOn(t, failingDB{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code, Routine: routine, Message: "in any language"}}, postgres.Options{})
		for _, err := range callAll(t.Context(), s, "a") {
			requireKinds(t, err, storage.ErrNotApplied)
			require.Equal(t, code != "25P02", strings.Contains(err.Error(), remedy), "25P02 is another statement in a transaction that has failed")
		}
	}
}

// cancelQuery cancels the context of a call when its first query begins.
type cancelQuery struct{ cancel context.CancelFunc }

func (c cancelQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.cancel()
	return ctx
}

func (cancelQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pgx closes a connection if the context of its round trip ends. To make a new one takes much longer than a decision.
func TestCancelledBatchKeepsItsConnection(t *testing.T) {
	_, table := newStore(t, newPool(t, ""))
	for _, timeout := range []time.Duration{400 * time.Millisecond, longTimeout} { // with and without a goroutine
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		p := newPoolAt(t, shared.Postgres(t).DSN(), func(c *pgxpool.Config) { c.ConnConfig.Tracer = cancelQuery{cancel} })
		s := storeOn(t, p, postgres.Options{Table: table})
		b := requestEach("a")
		s.Run(ctx, b)
		require.Error(t, ctx.Err())
		require.Eventually(t, func() bool { return p.Stat().IdleConns() == 1 }, longTimeout, time.Millisecond)
		require.EqualValues(t, 1, p.Stat().NewConnsCount())
		if timeout == longTimeout {
			require.NoError(t, b.Err, "a caller that sends its own batch returns when the server has answered")
			require.Equal(t, 1, b.Requests[0].Applied)
		}
	}
}
