// These tests promise about the SQLite store:
//   - it obeys the laws of package storagetest, with all usual settings of SQLite;
//   - limits are exact if several pools or processes share a file, or if one of them crashes;
//   - a call ends with its context while the database is locked, and its error shows whether it was applied;
//   - a connection goes back to the pool as it was, and is closed if its state is unknown;
//   - a purge uses an index and lets writers in.
package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/testing/enginetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// The task of another process: "hold" holds the write lock until its standard input ends. "transact"
// adds to two keys in transactions and prints a line after each. "transact for ever" does not end.
// "migrate" calls Migrate and Purge when its standard input ends.
const (
	task         = "SLUICE_SQLITE_TASK"
	file         = "SLUICE_SQLITE_FILE"
	transactions = 300
	wal          = "?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=20000"
	journal      = "?_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=20000"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(task) {
	case "":
		os.Exit(m.Run())
	case "hold":
		err = hold(os.Getenv(file))
	case "transact":
		err = countInTransactions(os.Getenv(file), transactions)
	case "migrate":
		err = migrate(os.Getenv(file))
	case "transact for ever":
		err = countInTransactions(os.Getenv(file), math.MaxInt)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func hold(dsn string) error {
	db, err := sql.Open("sqlite3", dsn+"&_txlock=exclusive")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return tx.Rollback()
}

// add is a decision that adds one to the count of every key.
func add(_ time.Time, items []driver.Item) error {
	for i := range items {
		n := uint64(0)
		if items[i].Found.Version != 0 {
			n = binary.BigEndian.Uint64(items[i].Found.State)
		}
		items[i].Next = driver.Change{Verb: driver.Put, State: binary.BigEndian.AppendUint64(nil, n+1), TTL: time.Hour}
	}
	return nil
}

// otherProcess starts this test binary as another process.
func otherProcess(t *testing.T, what, dsn string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), task+"="+what, file+"="+dsn)
	return cmd
}

// lockInOtherProcess starts a process that holds the lock until release.
func lockInOtherProcess(t *testing.T, dsn string) (release func()) {
	cmd := otherProcess(t, "hold", dsn)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 5)
	_, err = io.ReadFull(stdout, line)
	require.NoError(t, err)
	require.Equal(t, "held\n", string(line))
	release = sync.OnceFunc(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(release)
	return release
}

func shared(t *testing.T, options string) (*sqlite.Store, *sql.DB, string) {
	dsn := "file:" + filepath.Join(t.TempDir(), "shared.db") + options
	db, err := sql.Open("sqlite3", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return open(t, db, sqlite.Options{}), db, dsn
}

func creating(key string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte("new")}}
}

// soon is a timeout that is long enough to reach the lock on a busy machine. slack is the time by which
// a call on such a machine may miss its deadline.
const (
	soon  = 500 * time.Millisecond
	slack = time.Second
)

// within requires that a call ends within limit.
func within(t *testing.T, limit time.Duration, call func()) {
	t.Helper()
	began := time.Now()
	call()
	require.Less(t, time.Since(began), limit+slack)
}

// The busy_timeout of the connections is 20 seconds.
func TestContextEndsTheWaitForTheLock(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db, dsn := shared(t, options)
			release := lockInOtherProcess(t, dsn)
			deadline, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			var err error
			within(t, soon, func() { _, _, err = s.CompareAndSwap(deadline, creating("a")) })
			require.ErrorIs(t, err, storage.ErrContended)
			require.ErrorIs(t, err, context.DeadlineExceeded)

			purging, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			within(t, soon, func() { _, err = s.Purge(purging, 1) })
			require.ErrorIs(t, err, storage.ErrContended)

			cancelled, cancel := context.WithCancel(context.Background())
			defer time.AfterFunc(soon, cancel).Stop()
			within(t, soon, func() { _, _, err = s.CompareAndSwap(cancelled, creating("a")) })
			require.ErrorIs(t, err, storage.ErrContended)
			require.ErrorIs(t, err, context.Canceled)

			if name != "WAL" { // with WAL, readers do not wait
				within(t, 0, func() { _, _, err = s.Load(deadline, "a") })
				require.ErrorIs(t, err, context.DeadlineExceeded)
				again, cancel := context.WithTimeout(context.Background(), soon)
				defer cancel()
				within(t, soon, func() { _, _, err = s.Load(again, "a") })
				require.ErrorIs(t, err, storage.ErrContended)
			}

			defer time.AfterFunc(soon, release).Stop()
			_, swapped, err := s.CompareAndSwap(context.Background(), creating("a"))
			require.NoError(t, err)
			require.True(t, swapped)

			db.SetMaxOpenConns(1)
			var timeout int
			require.NoError(t, db.QueryRow("PRAGMA busy_timeout").Scan(&timeout))
			require.Equal(t, 20000, timeout, "busy_timeout must be restored")
		})
	}
}

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
		db := database(t, "_journal_mode=WAL")
		_, err := db.Exec("CREATE TABLE sluice_states (" + columns + ")")
		require.NoError(t, err)
		s, err := sqlite.New(db, sqlite.Options{})
		require.NoError(t, err)
		const remedy = "; set another table in Options.Table or use another database, or drop this table if it holds only limits; then call Store.Migrate"
		require.EqualError(t, s.Migrate(t.Context()), "sqlite: table sluice_states: no such column: "+missing+remedy)
		_, _, err = s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorContains(t, err, remedy)
	}
}

func TestMissingTableNeedsMigrate(t *testing.T) {
	s, err := sqlite.New(database(t, ""), sqlite.Options{})
	require.NoError(t, err)
	_, _, err = s.CompareAndSwap(context.Background(), creating("a"))
	require.ErrorContains(t, err, "sqlite: no such table: sluice_states; call Store.Migrate first")
	require.ErrorAs(t, err, new(sqlite3.Error))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrContended)
	_, _, err = s.Load(context.Background(), "a")
	require.ErrorContains(t, err, "call Store.Migrate first")
	_, err = s.Purge(context.Background(), 1)
	require.ErrorContains(t, err, "call Store.Migrate first")
}

func TestDecisionsOfTwoPoolsAreCountedWithEverySetting(t *testing.T) {
	const goroutines, each = 3, 25
	for name, options := range map[string]string{
		"WAL":                      "_journal_mode=WAL&_synchronous=NORMAL",
		"WAL, no busy_timeout":     "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=0",
		"journal, no busy_timeout": "_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=0",
		"journal, persistent":      "_journal_mode=PERSIST&_synchronous=OFF",
		"shared cache":             "_synchronous=OFF&cache=shared",
		"in memory":                "mode=memory&cache=shared",
		"statement cache":          "_journal_mode=WAL&_synchronous=OFF&_stmt_cache_size=4",
		"txlock":                   "_journal_mode=WAL&_synchronous=OFF&_txlock=exclusive",
	} {
		t.Run(name, func(t *testing.T) {
			file := "file:" + filepath.Join(t.TempDir(), "counts.db") + "?" + options
			var stores []*sqlite.Store
			for range 2 {
				db, err := sql.Open("sqlite3", file)
				require.NoError(t, err)
				t.Cleanup(func() { db.Close() })
				stores = append(stores, open(t, db, sqlite.Options{}))
			}
			errs := make(chan error, len(stores)*goroutines*each)
			var group sync.WaitGroup
			for _, s := range stores {
				e := engine.New(s, engine.Options{Timeout: 30 * time.Second})
				for range goroutines {
					group.Go(func() {
						for range each {
							_, err := enginetest.Do(context.Background(), e, []string{"a", "b"}, add)
							errs <- err
						}
					})
				}
			}
			group.Wait()
			close(errs)
			var all error
			for err := range errs {
				all = errors.Join(all, err)
			}
			require.NoError(t, all)
			records, _, err := stores[0].Load(t.Context(), "a", "b")
			require.NoError(t, err)
			for _, r := range records {
				require.EqualValues(t, len(stores)*goroutines*each, binary.BigEndian.Uint64(r.State))
			}
		})
	}
}
