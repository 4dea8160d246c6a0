package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// requireEnded checks that an error of the server has this code, and that a retry in the same
// transaction does not help.
func requireEnded(t *testing.T, err error, code string) {
	t.Helper()
	require.ErrorContains(t, err, "(SQLSTATE "+code+")")
	requireKinds(t, err, storage.ErrNotApplied)
}

// At a higher isolation level, a transaction cannot write rows that others wrote after its first
// statement.
func TestSerializationFailureEndsTheTransaction(t *testing.T) {
	p := newPool(t, "")
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		s, table := newStore(t, p)
		first := creating("a")
		swap(t, s, first)
		tx, err := p.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		late := storeIn(t, tx, table)
		existing(t, late, "a")
		swap(t, s, updating(first))
		_, _, err = late.CompareAndSwap(t.Context(), updating(first)...)
		requireEnded(t, err, "40001")
	}
}

// After the deadline, the store must not use the transaction any more. The race detector would report
// it.
func TestTransactionIsNotUsedAfterTheDeadline(t *testing.T) {
	p := newPool(t, "")
	_, table := newStore(t, p)
	exec(t, begin(t, p), "LOCK TABLE "+table)
	tx := begin(t, p)
	limiter, err := sluice.New(storeIn(t, tx, table), "gcra 1/h")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough to reach the lock
	defer cancel()
	_, err = limiter.Allow(ctx, "a") // waits for the lock
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	for range 1000 {
		_, err = tx.Exec(context.Background(), "SELECT 1")
		require.Error(t, err)
	}
}
