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
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// broken is a database that answers everything with an error.
type broken struct{ err error }

func (b broken) Begin(context.Context) (pgx.Tx, error) { return nil, b.err }

func (b broken) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, b.err
}

func (b broken) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, b.err }

// of requires of an error that it is what is listed, and nothing else.
func of(t *testing.T, err error, kinds ...error) {
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

// What a pooler may have said proves nothing, because it may have sent the statement
// on; what the server says of a statement has undone it.
func TestWhatTheCodesOfErrorsProve(t *testing.T) {
	for _, c := range []struct {
		codes []string
		kinds []error
	}{
		{[]string{"08P01", "08006", "08007", "58000", "", "5"}, []error{storage.ErrUnavailable}},
		{[]string{"40003"}, []error{storage.ErrUnavailable}},
		{[]string{"53300", "57P01", "57P03", "25006"}, []error{storage.ErrUnavailable, storage.ErrNotApplied}},
		{[]string{"40001", "40P01", "55P03", "57014"}, []error{storage.ErrContended, storage.ErrNotApplied}},
		{[]string{"42P01", "42501", "23514", "XX000"}, []error{storage.ErrNotApplied}},
	} {
		for _, code := range c.codes {
			t.Run(fmt.Sprintf("%q", code), func(t *testing.T) {
				s, err := postgres.New(broken{&pgconn.PgError{Severity: "FATAL", Code: code, Message: "no"}}, postgres.Options{})
				require.NoError(t, err)
				_, _, err = s.CompareAndSwap(t.Context(), creating("a")...)
				of(t, err, c.kinds...)
			})
		}
	}
}

// A decision fails at once, before its timeout, if no retry can help.
func TestAPoolThatIsClosedStaysSo(t *testing.T) {
	pool, err := pgxpool.New(context.Background(), "postgres://postgres@localhost/postgres")
	require.NoError(t, err)
	pool.Close()
	s, err := postgres.New(pool, postgres.Options{})
	require.NoError(t, err)
	swap := storage.Swap{Key: "a", New: storage.Record{Version: 1}}

	_, _, err = s.CompareAndSwap(context.Background(), swap)
	of(t, err, storage.ErrNotApplied)
	_, err = s.Load(context.Background(), "a")
	of(t, err, storage.ErrNotApplied)
	require.ErrorContains(t, err, "closed pool")
}

// A server that ends because it cannot write its log may have committed just before.
func TestAPanicOfTheServerProvesNothing(t *testing.T) {
	full := &pgconn.PgError{Severity: "PANIK", SeverityUnlocalized: "PANIC", Code: "53100", Message: "no space left"}
	s, err := postgres.New(broken{full}, postgres.Options{})
	require.NoError(t, err)
	_, _, err = s.CompareAndSwap(t.Context(), creating("a")...)
	of(t, err, storage.ErrUnavailable)
}

// PgBouncer gives up on a statement that it has sent on, which is applied later: the
// cost is taken once.
func TestPgBouncerGivesUpOnAStatement(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	direct, table := fresh(t, p)
	bouncer := servers.PgBouncer(t, shared.Postgres(t), "query_timeout = 1")
	s, err := postgres.New(pool(t, bouncer.DSN()+"&default_query_exec_mode=exec"), postgres.Options{Table: table})
	require.NoError(t, err)
	e := engine.New(s, engine.Options{Timeout: time.Minute})
	holder := transaction(t, p)
	_, swapped, err := inside(t, holder, table).CompareAndSwap(ctx, creating("a", "b")...)
	require.NoError(t, err)
	require.True(t, swapped)

	_, _, err = s.CompareAndSwap(ctx, creating("a")...)
	of(t, err, storage.ErrUnavailable)
	spent := make(chan error, 1)
	before := timeouts(bouncer)
	go func() {
		_, err := enginetest.Do(ctx, e, []string{"b"}, add)
		spent <- err
	}()
	require.Eventually(t, func() bool { return timeouts(bouncer) > before }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, holder.Rollback(ctx))
	require.NoError(t, <-spent)
	require.Equal(t, []uint64{1}, sums(t, direct, "b"))
}

func timeouts(b *servers.PgBouncerServer) int { return strings.Count(b.Log(), "query timeout") }

// What pgx refuses to send is a fault that stays, and was not applied.
func TestAStatementThatPgxRefuses(t *testing.T) {
	ctx := t.Context()
	_, table := fresh(t, pool(t, shared.Postgres(t).DSN()))
	const settings = "&standard_conforming_strings=off&default_query_exec_mode=simple_protocol"
	p := pool(t, shared.Postgres(t).DSN()+settings)
	conn, err := pgx.Connect(ctx, shared.Postgres(t).DSN()+settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx := transaction(t, p)
	for _, db := range []postgres.DB{p, conn, tx} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		_, _, err = s.CompareAndSwap(ctx, creating("a")...)
		of(t, err, storage.ErrNotApplied)
		require.ErrorContains(t, err, "standard_conforming_strings")
		_, err = s.Load(ctx, "a")
		of(t, err, storage.ErrNotApplied)
		_, err = s.Purge(ctx, 1)
		of(t, err, storage.ErrNotApplied)
	}
}

// An answer that cannot be read proves nothing. This one says that there was a conflict.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	_, err := p.Exec(ctx, "ALTER TABLE "+table+" ALTER version TYPE numeric")
	require.NoError(t, err)
	_, err = p.Exec(ctx, "INSERT INTO "+table+" VALUES ('large', 1e30, '', 'infinity', 'infinity')")
	require.NoError(t, err)
	for i, db := range []postgres.DB{p, transaction(t, p)} {
		s, err := postgres.New(db, postgres.Options{Table: table})
		require.NoError(t, err)
		_, err = s.Load(ctx, "large")
		of(t, err)
		_, _, err = s.CompareAndSwap(ctx, creating("large", fmt.Sprint("other ", i))...)
		of(t, err)
	}
	records, err := s.Load(ctx, "other 0", "other 1")
	require.NoError(t, err)
	require.Equal(t, []bool{false, false}, there(records))
	_, err = s.Load(ctx, "large")
	of(t, err)
}
