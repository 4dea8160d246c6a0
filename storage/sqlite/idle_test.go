package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/sqlite"
)

// transactUntil runs transactions until the store keeps a connection or keeps none, for at most 20 seconds.
func transactUntil(t *testing.T, s *sqlite.Store, db *sql.DB, kept int) {
	t.Helper()
	for began := time.Now(); db.Stats().InUse != kept; {
		add(t, s, "a")
		require.Less(t, time.Since(began), 20*time.Second)
	}
}

// Under load, the store keeps a connection for a short time. Then the connection goes back to the pool as it was.
func TestKeptConnectionGoesBackToThePool(t *testing.T) {
	s, db, _ := newStore(t, wal)
	add(t, storeOn(t, db, sqlite.Options{}), "a")
	require.Zero(t, db.Stats().InUse, "a single call is no load")
	for range 3 {
		transactUntil(t, s, db, 1)
		transactUntil(t, s, db, 0) // also under load
	}
	transactUntil(t, s, db, 1)
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
	for range db.Stats().OpenConnections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, 20000, busyTimeout(t, conn))
	}
}

func TestLastConnectionOfThePoolIsNotKept(t *testing.T) {
	s, db, _ := newStore(t, wal)
	for used := range 2 {
		db.SetMaxOpenConns(used + 1)
		for range 100 {
			add(t, s, "a")
			require.Equal(t, used, db.Stats().InUse)
		}
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
	}
}

func TestCloseOfTheDatabaseClosesTheKeptConnectionSoon(t *testing.T) {
	s, db, _ := newStore(t, wal)
	transactUntil(t, s, db, 1)
	require.NoError(t, db.Close())
	require.Eventually(t, func() bool { return db.Stats().OpenConnections == 0 }, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "closed")
}

// With a kept connection, the pool does not check the context. After an error, the connection is not kept.
func TestErrorsWithAKeptConnection(t *testing.T) {
	s, db, _ := newStore(t, wal)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	transactUntil(t, s, db, 1)
	_, _, err := s.Load(ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	transactUntil(t, s, db, 1)
	mustExec(t, db, "DROP TABLE "+sqlite.DefaultTable)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "no such table")
	require.Zero(t, db.Stats().InUse)
}

func TestKeptConnectionLocksNothing(t *testing.T) {
	for _, options := range []string{wal, wal + "&_stmt_cache_size=16"} {
		s, db, dsn := newStore(t, options)
		other := openDB(t, dsn)
		for _, change := range []string{
			"ALTER TABLE " + sqlite.DefaultTable + " ADD COLUMN more INTEGER", "VACUUM", "DROP TABLE " + sqlite.DefaultTable,
		} {
			transactUntil(t, s, db, 1)
			numbers(t, s, "a", "none")
			require.Equal(t, [][]any{{int64(0), int64(0), int64(0)}}, rows(t, other, "PRAGMA wal_checkpoint(TRUNCATE)"))
			mustExec(t, other, change)
		}
		require.NoError(t, s.Migrate(t.Context()))
		transactUntil(t, s, db, 1)
	}
}
