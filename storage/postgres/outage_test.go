package postgres_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/testing/enginetest"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestTimeoutsOfTheSessionAreContention(t *testing.T) {
	for _, setting := range []string{"statement_timeout", "lock_timeout"} {
		t.Run(setting, func(t *testing.T) {
			ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
			s, table := newStore(t, p)
			a := creating("a")
			_, _, err := s.CompareAndSwap(ctx, a...)
			require.NoError(t, err)
			holder := begin(t, p)
			_, err = holder.Exec(ctx, "SELECT FROM "+table+" FOR UPDATE")
			require.NoError(t, err)

			short, err := postgres.New(newPool(t, shared.Postgres(t).DSN()+"&"+setting+"=30"), postgres.Options{Table: table})
			require.NoError(t, err)
			next := creating("a")
			next[0].Old = a[0].New.Version
			_, swapped, err := short.CompareAndSwap(ctx, next...)
			require.ErrorIs(t, err, storage.ErrContended)
			require.False(t, swapped)

			require.NoError(t, holder.Rollback(ctx))
			require.Eventually(t, func() bool { // on a busy machine it may time out again
				_, swapped, err = short.CompareAndSwap(ctx, next...)
				return !errors.Is(err, storage.ErrContended)
			}, 20*time.Second, time.Millisecond)
			require.NoError(t, err)
			require.True(t, swapped)
		})
	}
}

// slack is how late a call on a busy machine may end.
const slack = time.Second

func TestStoreRecoversFromAnOutage(t *testing.T) {
	const timeout = 300 * time.Millisecond
	server := servers.Postgres(t)
	s := open(t, newPool(t, server.DSN()), postgres.Options{})
	short := engine.New(s, engine.Options{Timeout: timeout})
	long := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	spend := func(e *engine.Engine) error {
		_, err := enginetest.Do(context.Background(), e, []string{"a"}, increment)
		return err
	}
	require.NoError(t, spend(long))
	for name, stop := range map[string]func(){"stopped": server.Stop, "killed": server.Kill} {
		before := numbers(t, s, "a")[0]
		stop()
		began := time.Now()
		err := spend(short)
		if !errors.Is(err, storage.ErrOutcomeUnknown) { // the statement was sent on a connection that was already dead
			require.ErrorIs(t, err, storage.ErrUnavailable, name)
			require.ErrorIs(t, err, storage.ErrNotApplied, name)
		}
		err = spend(short)
		require.ErrorIs(t, err, storage.ErrUnavailable, name)
		require.ErrorIs(t, err, storage.ErrNotApplied, name)
		require.Less(t, time.Since(began), 2*timeout+slack, name)
		_, _, err = s.Load(context.Background(), "a")
		require.ErrorIs(t, err, storage.ErrUnavailable, name)

		require.NoError(t, server.Start())
		require.NoError(t, spend(long), name)
		require.Equal(t, before+1, numbers(t, s, "a")[0], name)
	}
}

// The Timeout is so long that only the refused connection can end the call.
func TestOnFailureAppliesSoonIfTheServerCannotBeReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close()) // from now on the address refuses connections
	for name, dsn := range map[string]string{
		"TCP":         "postgres://limiter@" + l.Addr().String() + "/limits",
		"Unix socket": "user=limiter dbname=limits host=" + t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := postgres.New(newPool(t, dsn), postgres.Options{})
			require.NoError(t, err)
			limiter, err := sluice.Options[string]{Timeout: time.Minute, OnFailure: sluice.FailLocal}.New(s,
				sluice.Rule[string]{Name: "key", Key: func(key string) string { return key }, Spec: "gcra 9/h"})
			require.NoError(t, err)
			began := time.Now()
			d, err := limiter.Allow(t.Context(), "ann")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.True(t, d.Degraded)
			require.ErrorIs(t, d.Err, storage.ErrUnavailable)
			require.ErrorIs(t, d.Err, storage.ErrNotApplied)
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

func TestPurgeSkipsLockedRecords(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		swap := creating(key)
		swap[0].TTL = time.Hour
		_, _, err := s.CompareAndSwap(ctx, swap...)
		require.NoError(t, err)
	}
	_, err := p.Exec(ctx, "UPDATE "+table+" SET expires_at = expires_at - interval '2 hours', purge_at = purge_at - interval '2 hours' WHERE key <> 'e'")
	require.NoError(t, err)
	holder := begin(t, p)
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
	records, _, err := s.Load(ctx, "a", "b", "c", "d", "e")
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, false, false, true}, exist(records))
}

func TestDecisionEndsWithTheCallersTransaction(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	for _, end := range []struct {
		name string
		do   func(pgx.Tx, context.Context) error
		want []uint64
	}{
		{"rolled back", pgx.Tx.Rollback, []uint64{0, 0}},
		{"committed", pgx.Tx.Commit, []uint64{1, 1}},
	} {
		t.Run(end.name, func(t *testing.T) {
			tx := begin(t, p)
			e := engine.New(storeIn(t, tx, table), engine.Options{Timeout: 20 * time.Second})
			_, err := enginetest.Do(ctx, e, []string{"a", "b"}, increment)
			require.NoError(t, err)
			require.Equal(t, []uint64{0, 0}, numbers(t, s, "a", "b"), "before the end")
			require.NoError(t, end.do(tx, ctx))
			require.Equal(t, end.want, numbers(t, s, "a", "b"))
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, db := range []postgres.DB{nil, (*pgxpool.Pool)(nil)} {
		_, err := postgres.New(db, postgres.Options{})
		require.ErrorContains(t, err, "must not be nil")
	}
	for _, o := range []postgres.Options{{Table: "a\x00b"}, {Table: "a$sluice_one$; DROP TABLE users; --"}, {Schema: "a\x00b"}, {Table: strings.Repeat("x", 64)}, {Schema: strings.Repeat("x", 64)}} {
		_, err := postgres.New(&pgxpool.Pool{}, o)
		require.ErrorContains(t, err, "at most 63 bytes and must not contain NUL")
	}
	s, err := postgres.New(&pgxpool.Pool{}, postgres.Options{})
	require.NoError(t, err)
	require.Contains(t, s.Schema(), `"`+postgres.DefaultTable+`"`)
}

// A retry does not help, so the error is neither contention nor an outage.
func TestMissingTableIsReported(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	for _, db := range []postgres.DB{p, begin(t, p)} {
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
