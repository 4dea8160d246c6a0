package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/sqlite"
)

// transactUntil runs transactions until done returns true, for at most 20 seconds.
func transactUntil(t *testing.T, s *sqlite.Store, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); {
		require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
		require.Less(t, time.Since(began), 20*time.Second)
	}
}

func TestKeptConnectionGoesBackToThePoolAsItWas(t *testing.T) {
	s, db, _ := shared(t, wal)
	isKept := func() bool { return db.Stats().InUse == 1 }
	another, err := sqlite.New(db, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, another.Transact(t.Context(), nil, adding("a")))
	require.False(t, isKept(), "a single call is no load")
	transactUntil(t, s, isKept)
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
	for range db.Stats().OpenConnections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, 20000, busyTimeout(t, conn))
	}
}

func TestKeptConnectionGoesBackToThePoolUnderLoad(t *testing.T) {
	s, db, _ := shared(t, wal)
	isKept := func() bool { return db.Stats().InUse == 1 }
	for range 3 {
		transactUntil(t, s, isKept)
		transactUntil(t, s, func() bool { return !isKept() })
	}
}

func TestLastConnectionOfThePoolIsNotKept(t *testing.T) {
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

func TestCloseOfTheDatabaseClosesTheKeptConnectionSoon(t *testing.T) {
	s, db, _ := shared(t, wal)
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	require.NoError(t, db.Close())
	require.Eventually(t, func() bool { return db.Stats().OpenConnections == 0 }, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "closed")
}

func TestConnectionIsNotKeptAfterAnError(t *testing.T) {
	s, db, _ := shared(t, wal)
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	_, err := db.Exec("DROP TABLE " + sqlite.DefaultTable)
	require.NoError(t, err)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "no such table")
	require.Zero(t, db.Stats().InUse)
}

// With a kept connection, the pool does not check the context.
func TestEndedContextWithAKeptConnection(t *testing.T) {
	s, db, _ := shared(t, wal)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	transactUntil(t, s, func() bool { return db.Stats().InUse == 1 })
	_, _, err := s.Load(ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Purge(ended, 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestKeptConnectionLocksNothing(t *testing.T) {
	for name, options := range map[string]string{"plain": wal, "statement cache": wal + "&_stmt_cache_size=16"} {
		t.Run(name, func(t *testing.T) {
			s, db, dsn := shared(t, options)
			other, err := sql.Open("sqlite3", dsn)
			require.NoError(t, err)
			t.Cleanup(func() { other.Close() })
			work := func() {
				transactUntil(t, s, func() bool {
					_, _, err := s.Load(t.Context(), "a", "none")
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
