package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestLawsBehindPgBouncer(t *testing.T) {
	storagetest.Run(t, harness(pool(t, shared.PgBouncer(t).DSN()+"&default_query_exec_mode=exec")))
}

// The first statement of a transaction gives up as the settings of its session
// say, and another one is not to blame.
func TestTimeouts(t *testing.T) {
	for _, setting := range []string{"statement_timeout", "lock_timeout"} {
		t.Run(setting, func(t *testing.T) {
			ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
			s, table := fresh(t, p)
			a := creating("a")
			_, _, err := s.CompareAndSwap(ctx, a...)
			require.NoError(t, err)
			holder := transaction(t, p)
			_, err = holder.Exec(ctx, "SELECT FROM "+table+" FOR UPDATE")
			require.NoError(t, err)

			hasty, err := postgres.New(pool(t, shared.Postgres(t).DSN()+"&"+setting+"=30"), postgres.Options{Table: table})
			require.NoError(t, err)
			next := creating("a")
			next[0].Old = a[0].New.Version
			_, swapped, err := hasty.CompareAndSwap(ctx, next...)
			require.ErrorIs(t, err, storage.ErrContended)
			require.False(t, swapped)

			require.NoError(t, holder.Rollback(ctx))
			require.Eventually(t, func() bool { // a busy machine is not always in time
				_, swapped, err = hasty.CompareAndSwap(ctx, next...)
				return !errors.Is(err, storage.ErrContended)
			}, 20*time.Second, time.Millisecond)
			require.NoError(t, err)
			require.True(t, swapped)
		})
	}
}

// slack is by how much a call on a busy machine may end later than its deadline.
const slack = time.Second

func TestOutage(t *testing.T) {
	const timeout = 300 * time.Millisecond
	server := servers.Postgres(t)
	s := open(t, pool(t, server.DSN()), postgres.Options{})
	hasty := engine.New(s, engine.Options{Timeout: timeout})
	patient := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	spend := func(e *engine.Engine) error {
		_, err := enginetest.Do(context.Background(), e, []string{"a"}, add)
		return err
	}
	require.NoError(t, spend(patient))
	for name, stop := range map[string]func(){"stopped": server.Stop, "killed": server.Kill} {
		before := sums(t, s, "a")[0]
		stop()
		began := time.Now()
		err := spend(hasty)
		if !errors.Is(err, storage.ErrOutcomeUnknown) { // as it is, if it was sent to one who was dead already
			require.ErrorIs(t, err, storage.ErrUnavailable, name)
			require.ErrorIs(t, err, storage.ErrNotApplied, name)
		}
		err = spend(hasty)
		require.ErrorIs(t, err, storage.ErrUnavailable, name)
		require.ErrorIs(t, err, storage.ErrNotApplied, name)
		require.Less(t, time.Since(began), 2*timeout+slack, name)
		_, _, err = s.LoadNow(context.Background(), "a")
		require.ErrorIs(t, err, storage.ErrUnavailable, name)
		_, err = s.Load(context.Background(), "a")
		require.ErrorIs(t, err, storage.ErrUnavailable, name)

		require.NoError(t, server.Start())
		require.NoError(t, spend(patient), name)
		require.Equal(t, before+1, sums(t, s, "a")[0], name)
	}
}

// Whatever becomes of the exchange that writes, the cost is taken once.
func TestLostReplies(t *testing.T) {
	proxy := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	direct := pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, direct)
	proxied := open(t, pool(t, servers.PostgresDSN(proxy.Addr())+"&default_query_exec_mode=exec"), postgres.Options{Table: table})
	proxy.Only(func(request []byte) bool { return bytes.Contains(request, []byte("unnest")) })
	e := engine.New(proxied, engine.Options{Timeout: 20 * time.Second})
	want := uint64(0)
	for _, kind := range faultproxy.Kinds() {
		if kind.Hangs() {
			continue
		}
		proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
		_, err := enginetest.Do(context.Background(), e, []string{"a", "b"}, add)
		want++
		require.NoError(t, err, kind)
		require.Len(t, proxy.Hits(), 1, kind)
		require.Equal(t, []uint64{want, want}, sums(t, s, "a", "b"), kind)
	}
}

func TestMigrateAtOnce(t *testing.T) {
	const connections = 8
	p := pool(t, shared.Postgres(t).DSN()+fmt.Sprint("&pool_max_conns=", connections))
	for round := range 8 {
		s, err := postgres.New(p, postgres.Options{Table: fmt.Sprint("migrated ", round), Unlogged: round == 0})
		require.NoError(t, err)
		errs, start := make(chan error, connections), make(chan struct{})
		for range connections {
			go func() {
				<-start
				errs <- s.Migrate(context.Background())
			}()
		}
		close(start)
		for range connections {
			require.NoError(t, <-errs)
		}
	}
	var kind string
	require.NoError(t, p.QueryRow(context.Background(), `SELECT relpersistence::text FROM pg_class WHERE relname = 'migrated 0'`).Scan(&kind))
	require.Equal(t, "u", kind)
}

// A transaction of the caller that is too late to create the table goes on, and
// finds the other's.
func TestMigrateInATransactionThatIsTooLate(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		t.Run(string(level), func(t *testing.T) {
			table := fmt.Sprintf("raced_%d", tables.Add(1))
			first, second := transaction(t, p), transaction(t, p)
			_, err := second.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL "+string(level))
			require.NoError(t, err)
			_, err = second.Exec(ctx, "SELECT 1")
			require.NoError(t, err)
			require.NoError(t, inside(t, first, table).Migrate(ctx))
			late := inside(t, second, table)
			done := make(chan error, 1)
			go func() { done <- late.Migrate(ctx) }()
			waiting(t, p, table, 1)
			require.NoError(t, first.Commit(ctx))
			require.NoError(t, <-done)

			_, swapped, err := late.CompareAndSwap(ctx, creating("a")...)
			require.NoError(t, err)
			require.True(t, swapped)
			require.NoError(t, second.Commit(ctx))
		})
	}
}

func TestPurgePassesOverWhatIsLocked(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		swap := creating(key)
		swap[0].TTL = time.Hour
		_, _, err := s.CompareAndSwap(ctx, swap...)
		require.NoError(t, err)
	}
	_, err := p.Exec(ctx, "UPDATE "+table+" SET expires_at = expires_at - interval '2 hours', purge_at = purge_at - interval '2 hours' WHERE key <> 'e'")
	require.NoError(t, err)
	holder := transaction(t, p)
	_, err = holder.Exec(ctx, "SELECT FROM "+table+" WHERE key IN ('b', 'e') FOR UPDATE")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, max := range []int{0, -1} {
		n, err := s.Purge(ctx, max)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	for _, want := range []int{2, 1, 0} {
		n, err := s.Purge(ctx, 2)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.NoError(t, holder.Rollback(ctx))
	n, err := s.Purge(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	records, err := s.Load(ctx, "a", "b", "c", "d", "e")
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, false, false, true}, there(records))
}

func TestWithTheWorkOfTheCaller(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	for _, end := range []struct {
		name string
		do   func(pgx.Tx, context.Context) error
		want []uint64
	}{
		{"rolled back", pgx.Tx.Rollback, []uint64{0, 0}},
		{"committed", pgx.Tx.Commit, []uint64{1, 1}},
	} {
		t.Run(end.name, func(t *testing.T) {
			tx := transaction(t, p)
			e := engine.New(inside(t, tx, table), engine.Options{Timeout: 20 * time.Second})
			_, err := enginetest.Do(ctx, e, []string{"a", "b"}, add)
			require.NoError(t, err)
			require.Equal(t, []uint64{0, 0}, sums(t, s, "a", "b"), "before the end")
			require.NoError(t, end.do(tx, ctx))
			require.Equal(t, end.want, sums(t, s, "a", "b"))
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, db := range []postgres.DB{nil, (*pgxpool.Pool)(nil)} {
		_, err := postgres.New(db, postgres.Options{})
		require.ErrorContains(t, err, "must not be nil")
	}
	for _, o := range []postgres.Options{{Table: "a\x00b"}, {Table: "a$sluice_one$; DROP TABLE users; --"}, {Schema: "a\x00b"}, {Table: strings.Repeat("x", 64)}, {Schema: strings.Repeat("x", 64)}} {
		_, err := postgres.New(&pgxpool.Pool{}, o)
		require.ErrorContains(t, err, "at most 63 bytes and no NUL")
	}
	s, err := postgres.New(&pgxpool.Pool{}, postgres.Options{})
	require.NoError(t, err)
	require.Contains(t, s.Schema(), `"`+postgres.DefaultTable+`"`)
}

// A fault that stays is neither contention nor an outage.
func TestMissingTable(t *testing.T) {
	p := pool(t, shared.Postgres(t).DSN())
	for _, db := range []postgres.DB{p, transaction(t, p)} {
		s, err := postgres.New(db, postgres.Options{Table: "missing"})
		require.NoError(t, err)
		_, _, err = s.CompareAndSwap(context.Background(), creating("a")...)
		require.ErrorContains(t, err, "(SQLSTATE 42P01); call Store.Migrate first")
		require.ErrorAs(t, err, new(*pgconn.PgError))
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrContended)
	}
}
