package sqlite_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func TestNewRefusesInvalidOptions(t *testing.T) {
	_, err := sqlite.New(nil, sqlite.Options{})
	require.ErrorContains(t, err, "must not be nil")
	_, err = sqlite.New(new(sql.DB), sqlite.Options{Table: "a\x00b"})
	require.ErrorContains(t, err, "must not contain a NUL byte")
}

func TestMigrateRefusesATableWithoutTheColumns(t *testing.T) {
	for columns, missing := range map[string]string{
		"id INTEGER": "key",
		"key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL, expires_at INTEGER": "purge_at",
	} {
		db := openDB(t, newFile(t, wal))
		mustExec(t, db, "CREATE TABLE sluice_states ("+columns+")")
		s := storeOn(t, db, sqlite.Options{})
		const remedy = "; set another table in Options.Table or use another database, or drop this table if it holds only limits; then call Store.Migrate"
		require.EqualError(t, s.Migrate(t.Context()), "sqlite: table sluice_states: no such column: "+missing+remedy)
		_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorContains(t, err, remedy)
	}
}

// A retry does not help. Every connection to ":memory:" opens a new database.
func TestMissingTableNeedsMigrate(t *testing.T) {
	db := openDB(t, newFile(t, "?mode=memory"))
	db.SetMaxOpenConns(1)
	swap(t, open(t, db, sqlite.Options{}), creating("a"))
	db.SetMaxOpenConns(2)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	s := storeOn(t, db, sqlite.Options{})
	_, _, swapErr := s.CompareAndSwap(t.Context(), creating("a"))
	require.ErrorIs(t, swapErr, storage.ErrNotApplied)
	_, _, loadErr := s.Load(t.Context(), "a")
	_, purgeErr := s.Purge(t.Context(), 1)
	for _, err := range []error{swapErr, loadErr, purgeErr} {
		require.ErrorContains(t, err, "sqlite: no such table: sluice_states; call Store.Migrate first")
		require.ErrorAs(t, err, new(sqlite3.Error))
		require.NotErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrContended)
	}
}

func TestTableNamesIgnoreTheCaseOfASCIILetters(t *testing.T) {
	db := openDB(t, newFile(t, wal))
	for _, test := range []struct {
		table string
		isNew bool
	}{{"Limits", true}, {"limits", false}, {"límits", true}, {"lÍmits", true}} {
		_, swapped, err := open(t, db, sqlite.Options{Table: test.table}).CompareAndSwap(t.Context(), creating("a"))
		require.NoError(t, err)
		require.Equal(t, test.isNew, swapped, test.table)
	}
}

// SQLite does not wait if two connections switch a new file to WAL at the same time. Nobody retries a Migrate or a Purge, so
// they wait for the lock even without a busy_timeout.
func TestConcurrentStoresCreateOneFile(t *testing.T) {
	const stores = 16
	for name, options := range modes {
		for _, timeout := range []string{"20000", "0"} {
			dsn := newFile(t, strings.NewReplacer("OFF", "NORMAL", "20000", timeout).Replace(options))
			var group sync.WaitGroup
			begin := make(chan struct{})
			for range stores {
				s := storeOn(t, openDB(t, dsn), sqlite.Options{})
				group.Go(func() {
					<-begin
					assert.NoError(t, s.Migrate(t.Context()), name)
					_, err := s.Purge(t.Context(), 10)
					assert.NoError(t, err, name)
				})
			}
			close(begin)
			group.Wait()
		}
	}
}
