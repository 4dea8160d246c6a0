package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/testing/enginetest"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// failingDB returns an error from all calls.
type failingDB struct{ err error }

func (b failingDB) Begin(context.Context) (pgx.Tx, error) { return nil, b.err }

func (b failingDB) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, b.err
}

func (b failingDB) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, b.err }

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

// The server has undone a statement that it reports an error for. An error that may be a pooler's
// leaves the outcome unknown, and so does the end of the server.
func TestErrorCodesAreClassified(t *testing.T) {
	for _, c := range []struct {
		severity string
		codes    []string
		kinds    []error
	}{
		{"PANIC", []string{"53100"}, []error{storage.ErrUnavailable}},
		{"FATAL", []string{"08P01", "08006", "08007", "58000", "", "5"}, []error{storage.ErrUnavailable}},
		{"FATAL", []string{"40003"}, []error{storage.ErrUnavailable}},
		{"FATAL", []string{"53300", "57P01", "57P03", "25006"}, []error{storage.ErrUnavailable, storage.ErrNotApplied}},
		{"FATAL", []string{"40001", "40P01", "55P03", "57014"}, []error{storage.ErrContended, storage.ErrNotApplied}},
		{"FATAL", []string{"42P01", "42501", "23514", "XX000"}, []error{storage.ErrNotApplied}},
	} {
		for _, code := range c.codes {
			t.Run(fmt.Sprintf("%q", code), func(t *testing.T) {
				s, err := postgres.New(failingDB{&pgconn.PgError{Severity: "in any language", SeverityUnlocalized: c.severity, Code: code, Message: "no"}}, postgres.Options{})
				require.NoError(t, err)
				_, _, err = s.CompareAndSwap(t.Context(), creating("a")...)
				requireKinds(t, err, c.kinds...)
			})
		}
	}
}

// The error is not ErrUnavailable, so the engine does not retry.
func TestClosedPoolIsNotAnOutage(t *testing.T) {
	pool, err := pgxpool.New(context.Background(), "postgres://postgres@localhost/postgres")
	require.NoError(t, err)
	pool.Close()
	s, err := postgres.New(pool, postgres.Options{})
	require.NoError(t, err)
	swap := storage.Swap{Key: "a", New: storage.Record{Version: 1}}

	_, _, err = s.CompareAndSwap(context.Background(), swap)
	requireKinds(t, err, storage.ErrNotApplied)
	_, _, err = s.Load(context.Background(), "a")
	requireKinds(t, err, storage.ErrNotApplied)
	require.ErrorContains(t, err, "closed pool")
	err = s.Migrate(context.Background())
	requireKinds(t, err, storage.ErrNotApplied)
	require.ErrorContains(t, err, "closed pool")
}

// PgBouncer gives up on a statement that it has sent on. The server applies it later. So the engine, which
// decides again, may charge the cost twice.
func TestTimeoutOfPgBouncerLeavesTheOutcomeUnknown(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
	direct, table := newStore(t, p)
	bouncer := servers.PgBouncer(t, shared.Postgres(t), "query_timeout = 1")
	s, err := postgres.New(newPool(t, bouncer.DSN()+"&default_query_exec_mode=exec"), postgres.Options{Table: table})
	require.NoError(t, err)
	e := engine.New(s, engine.Options{Timeout: time.Minute})
	holder := begin(t, p)
	_, swapped, err := storeIn(t, holder, table).CompareAndSwap(ctx, creating("a", "b")...)
	require.NoError(t, err)
	require.True(t, swapped)

	_, _, err = s.CompareAndSwap(ctx, creating("a")...)
	requireKinds(t, err, storage.ErrUnavailable)
	spent := make(chan error, 1)
	before := timeouts(bouncer)
	go func() {
		_, err := enginetest.Do(ctx, e, []string{"b"}, increment)
		spent <- err
	}()
	require.Eventually(t, func() bool { return timeouts(bouncer) > before }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, holder.Rollback(ctx))
	require.NoError(t, <-spent)
	require.Contains(t, []uint64{1, 2}, numbers(t, direct, "b")[0])
}

func timeouts(b *servers.PostgresServer) int { return strings.Count(b.Log(), "query timeout") }

// The outcome is known, and a retry does not help.
func TestStatementThatPgxRefusesIsNotApplied(t *testing.T) {
	ctx := t.Context()
	_, table := newStore(t, newPool(t, shared.Postgres(t).DSN()))
	const settings = "&standard_conforming_strings=off&default_query_exec_mode=simple_protocol"
	p := newPool(t, shared.Postgres(t).DSN()+settings)
	conn, err := pgx.Connect(ctx, shared.Postgres(t).DSN()+settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx := begin(t, p)
	for _, db := range []postgres.DB{p, conn, tx} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		_, _, err = s.CompareAndSwap(ctx, creating("a")...)
		requireKinds(t, err, storage.ErrNotApplied)
		require.ErrorContains(t, err, "standard_conforming_strings")
		_, _, err = s.Load(ctx, "a")
		requireKinds(t, err, storage.ErrNotApplied)
		_, err = s.Purge(ctx, 1)
		requireKinds(t, err, storage.ErrNotApplied)
	}
}

// A version in the reply is no bigint. The statement may have been applied.
func TestUnreadableReplyLeavesTheOutcomeUnknown(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	_, err := p.Exec(ctx, "ALTER TABLE "+table+" ALTER version TYPE numeric")
	require.NoError(t, err)
	_, err = p.Exec(ctx, "INSERT INTO "+table+" VALUES ('large', 1e30, '', 'infinity', 'infinity')")
	require.NoError(t, err)
	for i, db := range []postgres.DB{p, begin(t, p)} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		_, _, err = s.Load(ctx, "large")
		requireKinds(t, err)
		_, _, err = s.CompareAndSwap(ctx, creating("large", fmt.Sprint("other ", i))...)
		requireKinds(t, err)
	}
	records, _, err := s.Load(ctx, "other 0", "other 1")
	require.NoError(t, err)
	require.Equal(t, []bool{false, false}, exist(records))
	_, _, err = s.Load(ctx, "large")
	requireKinds(t, err)
}
