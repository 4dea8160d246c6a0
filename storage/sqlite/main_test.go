// These tests promise about the SQLite store:
//   - it obeys the laws of package storagetest, with all usual settings of SQLite;
//   - limits are exact if several pools share a file, with every setting;
//   - a call ends with its context while the database is locked, and its error shows whether it was applied;
//   - a connection goes back to the pool as it was, and is closed if its state is unknown;
//   - a purge uses an index and lets writers in.
package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

const (
	wal     = "?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=20000"
	journal = "?_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=20000"
	slack   = time.Second // the time by which a call on a busy machine may miss its deadline
)

// modes are the two ways in which SQLite commits.
var modes = map[string]string{"WAL": wal, "rollback journal": journal}

// lock holds the write lock of a file until release.
func lock(t *testing.T, dsn string) (release func()) {
	tx, err := openDB(t, dsn+"&_txlock=exclusive").Begin()
	require.NoError(t, err)
	return func() { _ = tx.Rollback() }
}

func openDB(t *testing.T, dsn string) *sql.DB {
	db, err := sql.Open("sqlite3", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// newFile returns the name of a new database with options.
func newFile(t *testing.T, options string) (dsn string) {
	return "file:" + filepath.Join(t.TempDir(), "test.db") + options
}

// storeOn returns a store whose table may be missing.
func storeOn(t *testing.T, db *sql.DB, o sqlite.Options) *sqlite.Store {
	s, err := sqlite.New(db, o)
	require.NoError(t, err)
	return s
}

// open returns a store after a Migrate.
func open(t *testing.T, db *sql.DB, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s := storeOn(t, db, o)
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

// newStore returns a store on a new database.
func newStore(t *testing.T, options string) (*sqlite.Store, *sql.DB, string) {
	dsn := newFile(t, options)
	db := openDB(t, dsn)
	return open(t, db, sqlite.Options{}), db, dsn
}

func mustExec(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	_, err := db.Exec(text, args...)
	require.NoError(t, err)
}

func creating(key string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte("new")}}
}

// swap makes swaps, which must succeed.
func swap(t *testing.T, s *sqlite.Store, swaps ...storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// updating returns an update of keys that are their own texts. decide returns whether to store Next.
func updating(decide func(items []driver.Item) bool, keys ...string) *driver.Update {
	u := new(driver.Update)
	for _, key := range keys {
		u.Items = append(u.Items, driver.Item{Key: driver.RuleKey{Key: key}})
	}
	u.Decide = func(time.Time) bool { return decide(u.Items) }
	return u
}

// adding is an update that adds one to the number under every key.
func adding(keys ...string) *driver.Update {
	return updating(func(items []driver.Item) bool {
		for i := range items {
			next := binary.BigEndian.AppendUint64(nil, numberOf(items[i].Found)+1)
			items[i].Next = driver.Change{Verb: driver.Put, State: next, TTL: time.Hour}
		}
		return true
	}, keys...)
}

// add runs updates that add one to the number under a key.
func add(t *testing.T, s *sqlite.Store, keys ...string) {
	t.Helper()
	require.NoError(t, s.Transact(t.Context(), nil, adding(keys...)))
}

func numberOf(r storage.Record) uint64 {
	if r.Version == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(r.State)
}

// numbers returns the numbers under keys.
func numbers(t *testing.T, s storage.Store, keys ...string) (all []uint64) {
	t.Helper()
	records, _, err := s.Load(t.Context(), keys...)
	require.NoError(t, err)
	for _, r := range records {
		all = append(all, numberOf(r))
	}
	return all
}

func busyTimeout(t *testing.T, conn *sql.Conn) (ms int) {
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT timeout FROM pragma_busy_timeout").Scan(&ms))
	return ms
}

// rows returns the result of a query.
func rows(t *testing.T, db *sql.DB, query string, args ...any) (all [][]any) {
	t.Helper()
	found, err := db.Query(query, args...)
	require.NoError(t, err)
	defer found.Close()
	columns, err := found.Columns()
	require.NoError(t, err)
	for found.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		require.NoError(t, found.Scan(into...))
		all = append(all, row)
	}
	require.NoError(t, found.Err())
	return all
}
