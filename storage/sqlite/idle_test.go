package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// transactUntil makes transactions until done, at most for a few seconds.
func transactUntil(t *testing.T, s *sqlite.Store, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); {
		require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
		require.Less(t, time.Since(began), 20*time.Second)
	}
}

// While transactions follow each other, the store keeps their connection. Then it gives the
// connection back as it was.
func TestTransactionsShareAConnection(t *testing.T) {
	s, db, _ := shared(t, wal)
	kept := func() bool { return db.Stats().InUse == 1 }
	another, err := sqlite.New(db, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, another.Transact(t.Context(), nil, adding("a")))
	require.False(t, kept(), "one call is no load")
	transactUntil(t, s, kept)
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
	for range db.Stats().OpenConnections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, 20000, busyTimeout(t, conn))
	}
}

// Also under load the pool gets the connection again and again, and may replace it.
func TestAConnectionIsKeptForAMoment(t *testing.T) {
	s, db, _ := shared(t, wal)
	kept := func() bool { return db.Stats().InUse == 1 }
	for range 3 {
		transactUntil(t, s, kept)
		transactUntil(t, s, func() bool { return !kept() })
	}
}

func TestTransactionsShareStatements(t *testing.T) {
	s, db, a := openAround(t)
	db.SetMaxOpenConns(2)
	before := -1
	transactUntil(t, s, func() bool {
		last := before
		before = a.work()
		return before == last // all that the last transaction needed was prepared already
	})
}

// The user needs the last connection of a pool, and finds it free between transactions.
func TestTheLastConnectionIsNotKept(t *testing.T) {
	s, db, _ := shared(t, wal)
	db.SetMaxOpenConns(1)
	for range 100 {
		require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
		require.Zero(t, db.Stats().InUse)
	}
	db.SetMaxOpenConns(2)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for range 100 {
		require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
		require.Equal(t, 1, db.Stats().InUse)
	}
}

// A closed database does not wait for the connection that is kept, and is soon without it.
func TestADatabaseIsClosedUnderTransactions(t *testing.T) {
	s, db, _ := shared(t, wal)
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	require.NoError(t, db.Close())
	require.Eventually(t, func() bool { return db.Stats().OpenConnections == 0 }, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "closed")
}

// Transactions of several goroutines are none that follow each other, and no harm.
func TestTransactionsAtOnce(t *testing.T) {
	const goroutines, each = 8, 50
	s, db, _ := shared(t, wal)
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				err = s.Transact(t.Context(), nil, adding("a"), adding("b", "a"))
			}
			errs <- err
		}()
	}
	for range goroutines {
		require.NoError(t, <-errs)
	}
	require.Equal(t, fmt.Sprint([]int{2 * goroutines * each, goroutines * each}), fmt.Sprint(counted(t, s, "a", "b")))
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
}

// A connection on which something failed is looked at by package sql.
func TestAConnectionOnWhichACallFailedIsNotKept(t *testing.T) {
	s, db, _ := shared(t, wal)
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	_, err := db.Exec("DROP TABLE " + sqlite.DefaultTable)
	require.NoError(t, err)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "no such table")
	require.Zero(t, db.Stats().InUse)
}

// If a connection is kept, no call asks the pool, which would have looked at the context.
func TestAnEndedContextWhileAConnectionIsKept(t *testing.T) {
	s, db, _ := shared(t, wal)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	_, err := s.Load(ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Purge(ended, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// While a connection is kept, it reads nothing and locks nothing.
func TestOthersBesideAKeptConnection(t *testing.T) {
	for name, options := range map[string]string{"plain": wal, "statement cache": wal + "&_stmt_cache_size=16"} {
		t.Run(name, func(t *testing.T) {
			s, db, dsn := shared(t, options)
			other, err := sql.Open("sqlite3", dsn)
			require.NoError(t, err)
			t.Cleanup(func() { other.Close() })
			work := func() {
				transactUntil(t, s, func() bool {
					_, err := s.Load(t.Context(), "a", "none")
					require.NoError(t, err)
					return db.Stats().InUse == 1
				})
			}
			for _, change := range []string{
				"ALTER TABLE " + sqlite.DefaultTable + " ADD COLUMN more INTEGER",
				"VACUUM",
				"DROP TABLE " + sqlite.DefaultTable,
			} {
				work()
				var busy, frames, done int
				require.NoError(t, other.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &done))
				require.Zero(t, busy+frames)
				_, err := other.Exec(change)
				require.NoError(t, err)
			}
			require.NoError(t, s.Migrate(t.Context()))
			work()
		})
	}
}

// An engine under load gives every connection back when the load ends.
func TestAnEngineKeepsNoConnection(t *testing.T) {
	s, db, _ := shared(t, wal+"&_stmt_cache_size=16")
	e := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	var group sync.WaitGroup
	errs := make(chan error, 20)
	for range cap(errs) {
		group.Go(func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = enginetest.Do(context.Background(), e, []string{"a"}, add)
			}
			errs <- err
		})
	}
	group.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
}
