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
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// What another process is to do: "hold" takes the write lock until its standard
// input ends, and "spend" adds to two keys. "transact" adds to them in transactions, and
// "transact for ever" prints a line after each.
const (
	task     = "SLUICE_SQLITE_TASK"
	file     = "SLUICE_SQLITE_FILE"
	spending = 300
	wal      = "?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=20000"
	journal  = "?_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=20000"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(task) {
	case "":
		os.Exit(m.Run())
	case "hold":
		err = hold(os.Getenv(file))
	case "spend":
		err = spend(os.Getenv(file))
	case "transact":
		err = countInTransactions(os.Getenv(file), spending)
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

func spend(dsn string) error {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return err
	}
	e := engine.New(s, engine.Options{Timeout: 20 * time.Second})
	errs := make(chan error)
	const goroutines = 4
	for range goroutines {
		go func() {
			for range spending / goroutines {
				if _, err := enginetest.Do(context.Background(), e, []string{"a", "b"}, add); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range goroutines {
		if err2 := <-errs; err2 != nil {
			err = err2
		}
	}
	return err
}

// add is a decision that counts in every key.
func add(_ time.Time, found [][]byte, next []driver.Change) error {
	for i := range found {
		n := uint64(0)
		if found[i] != nil {
			n = binary.BigEndian.Uint64(found[i])
		}
		next[i] = driver.Change{Verb: driver.Put, State: binary.BigEndian.AppendUint64(nil, n+1), TTL: time.Hour}
	}
	return nil
}

// another starts this test binary as another process.
func another(t *testing.T, what, dsn string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), task+"="+what, file+"="+dsn)
	return cmd
}

// held has another process hold the lock until release.
func held(t *testing.T, dsn string) (release func()) {
	cmd := another(t, "hold", dsn)
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

// soon is long enough to come to the lock on a busy machine, and soon over. slack is by
// how much a call on such a machine may end later than its deadline.
const (
	soon  = 500 * time.Millisecond
	slack = time.Second
)

// within requires that a call ends within the time that its context has.
func within(t *testing.T, limit time.Duration, call func()) {
	t.Helper()
	began := time.Now()
	call()
	require.Less(t, time.Since(began), limit+slack)
}

// The user would wait for 20 seconds.
func TestTheLockIsHeldByAnotherProcess(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, db, dsn := shared(t, options)
			release := held(t, dsn)
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

			if name != "WAL" { // where who reads waits too
				within(t, 0, func() { _, err = s.Load(deadline, "a") })
				require.ErrorIs(t, err, context.DeadlineExceeded)
				again, cancel := context.WithTimeout(context.Background(), soon)
				defer cancel()
				within(t, soon, func() { _, err = s.Load(again, "a") })
				require.ErrorIs(t, err, storage.ErrContended)
			}

			defer time.AfterFunc(soon, release).Stop()
			_, swapped, err := s.CompareAndSwap(context.Background(), creating("a"))
			require.NoError(t, err)
			require.True(t, swapped)

			db.SetMaxOpenConns(1)
			var timeout int
			require.NoError(t, db.QueryRow("PRAGMA busy_timeout").Scan(&timeout))
			require.Equal(t, 20000, timeout, "the setting is the user's again")
		})
	}
}

// Without WAL a commit waits for those who read.
func TestACommitWaitsForReaders(t *testing.T) {
	s, db, _ := shared(t, journal)
	_, _, err := s.CompareAndSwap(context.Background(), creating("a"), creating("b"))
	require.NoError(t, err)
	rows, err := db.Query("SELECT key FROM " + sqlite.DefaultTable)
	require.NoError(t, err)
	require.True(t, rows.Next())

	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	within(t, soon, func() { _, _, err = s.CompareAndSwap(ctx, creating("c")) })
	require.ErrorIs(t, err, storage.ErrContended)
	require.NoError(t, rows.Close())

	records, err := s.Load(context.Background(), "c")
	require.NoError(t, err)
	require.Zero(t, records[0].Version)
	_, swapped, err := s.CompareAndSwap(context.Background(), creating("c"))
	require.NoError(t, err)
	require.True(t, swapped)
}

func TestTwoProcessesSpend(t *testing.T) {
	s, _, dsn := shared(t, wal)
	outputs := make(chan string, 2)
	for range cap(outputs) {
		cmd := another(t, "spend", dsn)
		go func() {
			text, err := cmd.CombinedOutput()
			if err != nil {
				text = append(text, err.Error()...)
			}
			outputs <- string(text)
		}()
	}
	for range cap(outputs) {
		require.Empty(t, <-outputs)
	}
	records, err := s.Load(context.Background(), "a", "b")
	require.NoError(t, err)
	for _, r := range records {
		require.Equal(t, strconv.Itoa(2*spending), strconv.FormatUint(binary.BigEndian.Uint64(r.State), 10))
	}
}

func TestPurge(t *testing.T) {
	ctx, now := context.Background(), time.Unix(1e9, 0)
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return now }})
	for i := range 5 {
		swap := creating(strconv.Itoa(i))
		swap.TTL = time.Duration(5-i) * time.Minute
		_, _, err := s.CompareAndSwap(ctx, swap)
		require.NoError(t, err)
	}
	_, _, err := s.CompareAndSwap(ctx, creating("for ever"))
	require.NoError(t, err)
	now = now.Add(4 * time.Minute)
	for _, max := range []int{0, -1} {
		n, err := s.Purge(ctx, max)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	for _, want := range []int{3, 1, 0} {
		n, err := s.Purge(ctx, 3)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	var left int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+sqlite.DefaultTable).Scan(&left))
	require.Equal(t, 2, left)
}

func TestBadOptions(t *testing.T) {
	_, err := sqlite.New(nil, sqlite.Options{})
	require.ErrorContains(t, err, "must not be nil")
	_, err = sqlite.New(new(sql.DB), sqlite.Options{Table: "a\x00b"})
	require.ErrorContains(t, err, "must not contain NUL")
}

func TestATableOfSomebodyElse(t *testing.T) {
	for columns, lacking := range map[string]string{
		"id INTEGER": "key",
		"key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL, expires_at INTEGER": "purge_at",
	} {
		db := database(t, "_journal_mode=WAL")
		_, err := db.Exec("CREATE TABLE sluice_states (" + columns + ")")
		require.NoError(t, err)
		s, err := sqlite.New(db, sqlite.Options{})
		require.NoError(t, err)
		const remedy = "; name another table in Options.Table or another database, or drop this one if it holds nothing but limits, and call Store.Migrate"
		require.EqualError(t, s.Migrate(t.Context()), "sqlite: table sluice_states: no such column: "+lacking+remedy)
		_, _, err = s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorContains(t, err, remedy)
	}
}

// A fault that stays is neither contention nor an outage.
func TestMissingTable(t *testing.T) {
	s, err := sqlite.New(database(t, ""), sqlite.Options{})
	require.NoError(t, err)
	_, _, err = s.CompareAndSwap(context.Background(), creating("a"))
	require.ErrorContains(t, err, "sqlite: no such table: sluice_states; call Store.Migrate first")
	require.ErrorAs(t, err, new(sqlite3.Error))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrContended)
	_, err = s.Load(context.Background(), "a")
	require.ErrorContains(t, err, "call Store.Migrate first")
	_, err = s.Purge(context.Background(), 1)
	require.ErrorContains(t, err, "call Store.Migrate first")
}

// Whatever the settings of the user, decisions of two pools are counted.
func TestEverySettingCounts(t *testing.T) {
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
			records, err := stores[0].Load(t.Context(), "a", "b")
			require.NoError(t, err)
			for _, r := range records {
				require.EqualValues(t, len(stores)*goroutines*each, binary.BigEndian.Uint64(r.State))
			}
		})
	}
}
