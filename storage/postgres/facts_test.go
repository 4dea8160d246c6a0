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
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// ended requires an error of the server's with a code, that has ended the
// transaction: to try again in it does not help.
func ended(t *testing.T, err error, code string) {
	t.Helper()
	var e *pgconn.PgError
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrContended)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
}

// At a higher level of isolation a transaction of the caller cannot write what
// others wrote since it began to read.
func TestASerializationFailureInATransaction(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			s, table := fresh(t, p)
			first := creating("a")
			_, _, err := s.CompareAndSwap(ctx, first...)
			require.NoError(t, err)
			tx, err := p.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			late := inside(t, tx, table)
			_, err = late.Load(ctx, "a")
			require.NoError(t, err)

			_, swapped, err := s.CompareAndSwap(ctx, after(first)...)
			require.NoError(t, err)
			require.True(t, swapped)
			_, _, err = late.CompareAndSwap(ctx, after(first)...)
			ended(t, err, "40001")
		})
	}
}

// Callers who decide twice in a transaction may wait for each other. Postgres
// finds that and ends one of them.
func TestADeadlockOfTransactions(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN()+"&deadlock_timeout=10ms")
	s, table := fresh(t, p)
	a, b := creating("a"), creating("b")
	_, _, err := s.CompareAndSwap(ctx, append(a, b...)...)
	require.NoError(t, err)
	one, other := inside(t, transaction(t, p), table), inside(t, transaction(t, p), table)
	_, _, err = one.CompareAndSwap(ctx, after(a)...)
	require.NoError(t, err)
	_, _, err = other.CompareAndSwap(ctx, after(b)...)
	require.NoError(t, err)

	first, second := later(one, after(b)), later(other, after(a))
	victim, winner := <-first, <-second
	if victim.err == nil {
		victim, winner = winner, victim
	}
	ended(t, victim.err, "40P01")
	require.NoError(t, winner.err)
}

// Alone, a statement meets neither, unless the session's default is such a level
// of isolation: then it is tried again.
func TestASerializationFailureAloneIsContention(t *testing.T) {
	s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&default_transaction_isolation=serializable&pool_max_conns=8"))
	e := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	const goroutines, each = 8, 10
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var all error
			for range each {
				_, err := enginetest.Do(context.Background(), e, []string{"a", "b"}, add)
				all = errors.Join(all, err)
			}
			errs <- all
		}()
	}
	for range goroutines {
		require.NoError(t, <-errs)
	}
	require.Equal(t, []uint64{goroutines * each, goroutines * each}, sums(t, s, "a", "b"))
}

// A caller who leaves, because the time is over, has the transaction for himself.
func TestNobodyUsesATransactionThatWasLeft(t *testing.T) {
	p := pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	a := creating("a")
	_, _, err := s.CompareAndSwap(t.Context(), a...)
	require.NoError(t, err)
	_, _, err = inside(t, transaction(t, p), table).CompareAndSwap(t.Context(), after(a)...)
	require.NoError(t, err)

	tx := transaction(t, p)
	e := engine.New(inside(t, tx, table), engine.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough to come to the row
	defer cancel()
	_, err = enginetest.Do(ctx, e, []string{"a"}, func(_ time.Time, _ [][]byte, next []driver.Change) error {
		next[0] = driver.Change{Verb: driver.Put}
		return nil
	}) // waits for the row
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	for range 1000 { // with the race detector
		_, err = tx.Exec(context.Background(), "SELECT 1")
		require.Error(t, err)
	}
}

// The server's clock goes on in a transaction of the caller, also that by which
// records expire: now() would stand still.
func TestTimeGoesOnInATransaction(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN())
	_, table := fresh(t, p)
	tx := transaction(t, p)
	s := inside(t, tx, table)
	_, before, err := s.LoadNow(ctx)
	require.NoError(t, err)
	for _, key := range []string{"a", "b"} {
		swap := creating(key)
		swap[0].TTL = time.Hour
		_, _, err = s.CompareAndSwap(ctx, swap...)
		require.NoError(t, err)
	}
	_, after, err := s.LoadNow(ctx)
	require.NoError(t, err)
	require.Less(t, before, after)
	rows, err := tx.Query(ctx, "SELECT expires_at FROM "+table+" ORDER BY key")
	require.NoError(t, err)
	expiries, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	require.NoError(t, err)
	require.Len(t, expiries, 2)
	require.True(t, expiries[0].Before(expiries[1]))

	// A record that expires in the transaction is absent in it.
	_, err = tx.Exec(ctx, "UPDATE "+table+" SET expires_at = clock_timestamp() WHERE key = 'a'")
	require.NoError(t, err)
	_, swapped, err := s.CompareAndSwap(ctx, creating("a")...)
	require.NoError(t, err)
	require.True(t, swapped)
}
