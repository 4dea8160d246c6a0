package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/testing/enginetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// requireEnded checks that an error of the server has this code, and that a retry in the same
// transaction does not help.
func requireEnded(t *testing.T, err error, code string) {
	t.Helper()
	var e *pgconn.PgError
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrContended)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
}

// At a higher isolation level, a transaction cannot write rows that others wrote after its first
// statement.
func TestSerializationFailureEndsTheTransaction(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			s, table := newStore(t, p)
			first := creating("a")
			_, _, err := s.CompareAndSwap(ctx, first...)
			require.NoError(t, err)
			tx, err := p.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			late := storeIn(t, tx, table)
			_, _, err = late.Load(ctx, "a")
			require.NoError(t, err)

			_, swapped, err := s.CompareAndSwap(ctx, updating(first)...)
			require.NoError(t, err)
			require.True(t, swapped)
			_, _, err = late.CompareAndSwap(ctx, updating(first)...)
			requireEnded(t, err, "40001")
		})
	}
}

// Transactions with two decisions each can deadlock. PostgreSQL ends one of them.
func TestDeadlockEndsOneTransaction(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN()+"&deadlock_timeout=10ms")
	s, table := newStore(t, p)
	a, b := creating("a"), creating("b")
	_, _, err := s.CompareAndSwap(ctx, append(a, b...)...)
	require.NoError(t, err)
	one, other := storeIn(t, begin(t, p), table), storeIn(t, begin(t, p), table)
	_, _, err = one.CompareAndSwap(ctx, updating(a)...)
	require.NoError(t, err)
	_, _, err = other.CompareAndSwap(ctx, updating(b)...)
	require.NoError(t, err)

	first, second := swapLater(one, updating(b)), swapLater(other, updating(a))
	victim, winner := <-first, <-second
	if victim.err == nil {
		victim, winner = winner, victim
	}
	requireEnded(t, victim.err, "40P01")
	require.NoError(t, winner.err)
}

// Outside of a transaction, a serialization failure can only occur if the session's default isolation
// level is higher. The engine then retries the statement.
func TestSerializationFailureOutsideATransactionIsRetried(t *testing.T) {
	s, _ := newStore(t, newPool(t, shared.Postgres(t).DSN()+"&default_transaction_isolation=serializable&pool_max_conns=8"))
	e := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	const goroutines, each = 8, 10
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var all error
			for range each {
				_, err := enginetest.Do(context.Background(), e, []string{"a", "b"}, increment)
				all = errors.Join(all, err)
			}
			errs <- all
		}()
	}
	for range goroutines {
		require.NoError(t, <-errs)
	}
	require.Equal(t, []uint64{goroutines * each, goroutines * each}, numbers(t, s, "a", "b"))
}

// After the deadline, the store must not use the transaction any more. The race detector would report
// it.
func TestTransactionIsNotUsedAfterTheDeadline(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	a := creating("a")
	_, _, err := s.CompareAndSwap(t.Context(), a...)
	require.NoError(t, err)
	_, _, err = storeIn(t, begin(t, p), table).CompareAndSwap(t.Context(), updating(a)...)
	require.NoError(t, err)

	tx := begin(t, p)
	e := engine.New(storeIn(t, tx, table), engine.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough to reach the lock
	defer cancel()
	_, err = enginetest.Do(ctx, e, []string{"a"}, func(_ time.Time, items []driver.Item) error {
		items[0].Next = driver.Change{Verb: driver.Put}
		return nil
	}) // waits for the lock
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	for range 1000 {
		_, err = tx.Exec(context.Background(), "SELECT 1")
		require.Error(t, err)
	}
}
