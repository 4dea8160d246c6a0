package sqlite_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// pair returns the two connections of a pool.
func pair(t *testing.T, db *sql.DB) (a, b *sql.Conn) {
	db.SetMaxOpenConns(2)
	db.SetMaxIdleConns(2)
	a, err := db.Conn(t.Context())
	require.NoError(t, err)
	b, err = db.Conn(t.Context())
	require.NoError(t, err)
	return a, b
}

func setBusyTimeout(t *testing.T, conn *sql.Conn, ms int) {
	_, err := conn.ExecContext(t.Context(), fmt.Sprint("PRAGMA busy_timeout = ", ms))
	require.NoError(t, err)
}

func busyTimeout(t *testing.T, conn *sql.Conn) (ms int) {
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT timeout FROM pragma_busy_timeout").Scan(&ms))
	return ms
}

// The user may set busy_timeout of one connection of the pool at any time.
func TestConnectionsKeepTheirBusyTimeout(t *testing.T) {
	for name, options := range map[string]string{"plain": wal, "statement cache": wal + "&_stmt_cache_size=16"} {
		t.Run(name, func(t *testing.T) {
			s, db, _ := shared(t, options)
			a, b := pair(t, db)
			for i, ms := range []int{20000, 77, 0, 5, 60, 0} {
				a, b = b, a
				setBusyTimeout(t, a, ms)
				require.NoError(t, a.Close()) // now it is the only free one
				_, swapped, err := s.CompareAndSwap(t.Context(), creating(fmt.Sprint("key ", i)))
				require.NoError(t, err)
				require.True(t, swapped)
				a, err = db.Conn(t.Context())
				require.NoError(t, err)
				require.Equal(t, ms, busyTimeout(t, a))
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

func TestContextEndsTheWaitOfMigrate(t *testing.T) {
	_, db, dsn := shared(t, wal)
	s, err := sqlite.New(db, sqlite.Options{Table: "another"})
	require.NoError(t, err)
	release := lockInOtherProcess(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	within(t, 2*time.Second, func() { err = s.Migrate(ctx) })
	require.ErrorIs(t, err, storage.ErrContended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "creating table another")
	release()
	require.NoError(t, s.Migrate(t.Context()))
}

// wrapped is a driver that wraps go-sqlite3, as drivers for tracing do.
type wrapped string

func (w wrapped) Driver() sqldriver.Driver { return &sqlite3.SQLiteDriver{} }

func (w wrapped) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := w.Driver().Open(string(w))
	return struct{ sqldriver.Conn }{conn}, err
}

func TestDriverThatWrapsGoSQLite3(t *testing.T) {
	_, _, dsn := shared(t, wal)
	db := sql.OpenDB(wrapped(dsn))
	defer db.Close()
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{})
	release := lockInOtherProcess(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var err error
	within(t, 2*time.Second, func() { _, _, err = s.CompareAndSwap(ctx, creating("a")) })
	require.ErrorIs(t, err, storage.ErrContended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	release()
	_, swapped, err := s.CompareAndSwap(t.Context(), creating("a"))
	require.NoError(t, err)
	require.True(t, swapped)

	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, 20000, busyTimeout(t, conn))
}
