package sqlite_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// recordingDriver is a driver that wraps go-sqlite3. It records the statements, and can make them fail.
type recordingDriver struct {
	file   string
	fail   func(text string) error
	failed func(text string) error // after the statement
	mu     sync.Mutex
	texts  []string // of the statements
}

func (a *recordingDriver) Driver() sqldriver.Driver { return &sqlite3.SQLiteDriver{} }

func (a *recordingDriver) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := a.Driver().Open(a.file)
	if err != nil {
		return nil, err
	}
	return recordingConn{conn.(*sqlite3.SQLiteConn), a}, nil
}

func (a *recordingDriver) begin(text string) error {
	a.mu.Lock()
	a.texts = append(a.texts, text)
	a.mu.Unlock()
	if a.fail != nil {
		return a.fail(text)
	}
	return nil
}

type recordingConn struct {
	*sqlite3.SQLiteConn
	driver *recordingDriver
}

func (c recordingConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := c.driver.begin(text); err != nil {
		return nil, err
	}
	r, err := c.SQLiteConn.ExecContext(ctx, text, args)
	if err == nil && c.driver.failed != nil {
		err = c.driver.failed(text)
	}
	return r, err
}

func (c recordingConn) QueryContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := c.driver.begin(text); err != nil {
		return nil, err
	}
	return c.SQLiteConn.QueryContext(ctx, text, args)
}

func openRecording(t *testing.T, o sqlite.Options) (*sqlite.Store, *sql.DB, *recordingDriver) {
	a := &recordingDriver{file: newFile(t, wal)}
	db := sql.OpenDB(a)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return open(t, db, o), db, a
}

// failing returns err for statements with one of the prefixes.
func failing(err error, prefixes ...string) func(string) error {
	return func(text string) error {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
			return err
		}
		return nil
	}
}

// A driver that wraps go-sqlite3 may also return an error after SQLite has executed the statement.
func TestConnectionIsClosedIfItsStateIsUnknown(t *testing.T) {
	failed, diskError, full := errors.New("failed"), sqlite3.Error{Code: sqlite3.ErrIoErr}, sqlite3.Error{Code: sqlite3.ErrFull}
	for name, test := range map[string]struct {
		fail               func(text string) error
		failed             func(text string) error
		err                error
		notApplied, stored bool
		reused             bool
	}{
		"COMMIT and ROLLBACK failed":          {fail: failing(failed, "COMMIT", "ROLLBACK"), err: failed},
		"the transaction was rolled back":     {fail: failing(failed, "INSERT"), err: failed, notApplied: true, reused: true},
		"busy_timeout cannot be restored":     {fail: failing(failed, "PRAGMA busy_timeout = 20000"), stored: true},
		"the driver reports a bad connection": {fail: failing(sqldriver.ErrBadConn, "INSERT"), err: sqldriver.ErrBadConn, notApplied: true},
		"ROLLBACK failed after BEGIN did":     {fail: failing(failed, "BEGIN", "ROLLBACK"), err: failed, notApplied: true},
		"busy_timeout cannot be read":         {fail: failing(failed, "PRAGMA busy_timeout"), err: failed, notApplied: true, reused: true},
		"busy_timeout cannot be set":          {fail: failing(failed, "PRAGMA busy_timeout = 0"), err: failed, notApplied: true, reused: true},
		"BEGIN failed":                        {fail: failing(diskError, "BEGIN"), err: storage.ErrUnavailable, notApplied: true},
		"SELECT failed":                       {fail: failing(failed, "SELECT"), err: failed, notApplied: true, reused: true},
		"COMMIT failed":                       {fail: failing(failed, "COMMIT"), err: failed, reused: true},
		"the disk is full":                    {fail: failing(full, "COMMIT"), err: storage.ErrUnavailable, notApplied: true, reused: true},
		"an error after BEGIN":                {failed: failing(failed, "BEGIN"), err: failed, notApplied: true, reused: true},
		"an error after INSERT":               {failed: failing(failed, "INSERT"), err: failed, notApplied: true, reused: true},
		"an error after COMMIT":               {failed: failing(failed, "COMMIT"), err: failed, stored: true, reused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, a := openRecording(t, sqlite.Options{})
			a.fail, a.failed = test.fail, test.failed
			_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.notApplied, errors.Is(err, storage.ErrNotApplied))
			require.Equal(t, test.reused, db.Stats().OpenConnections == 1)
			a.fail, a.failed = nil, nil
			mustExec(t, openDB(t, a.file), "BEGIN IMMEDIATE; ROLLBACK") // the lock is free
			records, _, err := s.Load(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, test.stored, records[0].Version != 0)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			require.Equal(t, 20000, busyTimeout(t, conn))
			_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK")
			require.NoError(t, err)
		})
	}
}

// SQLite opens a file for reading if it may not write it, and writes no file that has lost its name. That lasts as long as
// the connection.
func TestReadOnlyConnectionIsClosed(t *testing.T) {
	s, _, dsn := newStore(t, journal)
	file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	require.NoError(t, os.Remove(file))
	replaced := open(t, openDB(t, dsn), sqlite.Options{})
	require.ErrorIs(t, s.Transact(t.Context(), nil, adding("a")), storage.ErrUnavailable)
	add(t, s, "a")
	require.Equal(t, []uint64{1}, numbers(t, replaced, "a"))
}

// A connection keeps a file open that has been replaced, and remembers the size of a file that was damaged.
func TestConnectionToADamagedFileIsClosed(t *testing.T) {
	for name, replace := range map[string]func(from, to string) error{
		"renamed": os.Rename,
		"copied": func(from, to string) error {
			content, err := os.ReadFile(from)
			return errors.Join(err, os.WriteFile(to, content, 0o644))
		},
	} {
		for _, damage := range []func(content []byte) []byte{
			func(content []byte) []byte { return content[:4096] }, // a page
			func(content []byte) []byte { return slices.Repeat([]byte("no database"), len(content)) },
		} {
			s, _, dsn := newStore(t, journal)
			add(t, s, "a")
			file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file+".backup", content, 0o644))
			require.NoError(t, os.WriteFile(file, damage(content), 0o644))
			require.Error(t, s.Transact(t.Context(), nil, adding("a")), name)
			require.NoError(t, replace(file+".backup", file))
			_ = s.Transact(t.Context(), nil, adding("b"))
			add(t, s, "a")
			require.Equal(t, []uint64{2}, numbers(t, s, "a"))
		}
	}
}

func TestErrorsOfTheDiskAreOutages(t *testing.T) {
	s, _, a := openRecording(t, sqlite.Options{})
	for _, code := range []sqlite3.ErrNo{sqlite3.ErrIoErr, sqlite3.ErrFull, sqlite3.ErrCantOpen, sqlite3.ErrReadonly} {
		a.fail = failing(sqlite3.Error{Code: code}, "SELECT")
		require.ErrorIs(t, s.Transact(t.Context(), nil, adding("a")), storage.ErrUnavailable)
	}
}

// A user of the pool may begin a transaction outside of sql.Tx, if the pool has a single connection.
func TestOpenTransactionOfTheUserIsNotRolledBack(t *testing.T) {
	s, db, _ := newStore(t, wal)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "BEGIN; CREATE TABLE users (id)")
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "cannot start a transaction within a transaction")
	mustExec(t, db, "INSERT INTO users VALUES (1); COMMIT")
	add(t, s, "a")
}

// A database in memory is lost if a panic or runtime.Goexit closes its connection.
func TestPanicAndGoexitDoNotCloseTheConnection(t *testing.T) {
	panicking := func() time.Time { panic("the clock") }
	clock := time.Now
	db := openDB(t, newFile(t, "?mode=memory"))
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return clock() }})
	add(t, s, "a")
	transact := func(clock func() time.Time, end func()) {
		_ = s.Transact(t.Context(), clock, adding("a"), updating(func([]driver.Item) bool { end(); return true }))
	}
	for _, call := range []func(){
		func() { transact(panicking, func() {}) },
		func() { transact(nil, func() { panic("the decider") }) },
		func() { transact(nil, runtime.Goexit) },
		func() { clock = panicking; transact(nil, func() {}) },
		func() { _, _, _ = s.CompareAndSwap(t.Context(), creating("a")) },
	} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			call()
			t.Error("the call has returned")
		}()
		<-ended
	}
	clock = time.Now
	require.Zero(t, db.Stats().InUse)
	require.Equal(t, []uint64{1}, numbers(t, s, "a"))
	add(t, s, "a")
	require.Equal(t, []uint64{2}, numbers(t, s, "a"))
}

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

// The load ends inside of the transaction, and the store keeps its connection.
func TestStoreKeepsOneConnection(t *testing.T) {
	s, db, _ := newStore(t, wal)
	for range 50 {
		require.NoError(t, s.Transact(t.Context(), nil, updating(func([]driver.Item) bool {
			numbers(t, s, "a")
			return true
		}, "b")))
	}
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
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

func TestErrorNamesABusyPool(t *testing.T) {
	s, db, _ := newStore(t, wal)
	db.SetMaxOpenConns(1)
	own, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer own.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err = s.Load(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "from the pool")
}

// With a kept connection, the pool does not check the context. After an error, the connection is not kept.
func TestErrorsWithAKeptConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no kept connection is released before the test sees it
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
	})
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

func TestTransactionReadsAndWritesEachKeyOnce(t *testing.T) {
	s, _, a := openRecording(t, sqlite.Options{})
	add(t, s, "a")
	a.texts = nil
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("a"), adding("a")))
	require.Equal(t, []uint64{4}, numbers(t, s, "a"))
	var kinds []string
	for _, text := range a.texts[:6] {
		kinds = append(kinds, strings.Fields(text)[0])
	}
	require.Equal(t, []string{"PRAGMA", "PRAGMA", "BEGIN", "SELECT", "UPDATE", "COMMIT"}, kinds)
}

func TestTransactionWithoutChangesWritesNothing(t *testing.T) {
	for name, options := range modes {
		s, _, dsn := newStore(t, options)
		add(t, s, "a")
		file := strings.TrimPrefix(dsn[:strings.Index(dsn, "?")], "file:")
		content := func() (all string) {
			for _, name := range []string{file, file + "-wal", file + "-journal"} {
				content, err := os.ReadFile(name)
				all += fmt.Sprint(string(content), errors.Is(err, os.ErrNotExist))
			}
			return all
		}
		before := content()
		keep := updating(func([]driver.Item) bool { return true }, "a", "b")
		refused := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return false }, "a")
		remove := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return true }, "b")
		require.NoError(t, s.Transact(t.Context(), nil, keep, refused, remove))
		require.True(t, before == content(), "%s: a file has changed", name)
	}
}

// The user may set busy_timeout of a connection at any time.
func TestConnectionsKeepTheirBusyTimeout(t *testing.T) {
	for _, options := range []string{wal, wal + "&_stmt_cache_size=16"} {
		s, db, _ := newStore(t, options)
		db.SetMaxOpenConns(1)
		for i, ms := range []int64{20000, 77, 0, 5, 60, 0} {
			mustExec(t, db, fmt.Sprint("PRAGMA busy_timeout = ", ms))
			swap(t, s, creating(fmt.Sprint("key ", i)))
			require.Equal(t, [][]any{{ms}}, rows(t, db, "PRAGMA busy_timeout"))
		}
	}
}

// busyOnce is a connector whose first connection finds the database locked: when it is opened, or with a driver, as the driver
// says. The others take longer than their context.
type busyOnce struct {
	driver *recordingDriver
	tried  bool
}

func (c *busyOnce) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if c.tried {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if c.tried = true; c.driver != nil {
		return c.driver.Connect(ctx)
	}
	return nil, sqlite3.Error{Code: sqlite3.ErrBusy}
}

func (c *busyOnce) Driver() sqldriver.Driver { return nil }

func TestContextThatEndsAfterALockIsContention(t *testing.T) {
	locked := &recordingDriver{file: newFile(t, "?_busy_timeout=0"), fail: failing(sqlite3.Error{Code: sqlite3.ErrBusy}, "BEGIN", "CREATE")}
	load := func(ctx context.Context, s *sqlite.Store) error { _, _, err := s.Load(ctx, "a"); return err }
	purge := func(ctx context.Context, s *sqlite.Store) error { _, err := s.Purge(ctx, 1); return err }
	for name, test := range map[string]struct {
		driver *recordingDriver
		call   func(context.Context, *sqlite.Store) error
	}{
		"load": {nil, load}, "purge": {locked, purge},
		"migrate": {locked, func(ctx context.Context, s *sqlite.Store) error { return s.Migrate(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			db := sql.OpenDB(&busyOnce{driver: test.driver})
			defer db.Close()
			db.SetMaxIdleConns(0)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := test.call(ctx, storeOn(t, db, sqlite.Options{}))
			require.ErrorIs(t, err, storage.ErrContended)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

// The busy_timeout of the connections is 20 seconds. Without it, Migrate and Purge wait all the same.
func TestContextEndsTheWaitForTheLock(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that wait for a lock")
	}
	const soon = 500 * time.Millisecond // long enough to reach the lock on a busy machine
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal, "wrapped": wal, "no busy_timeout": strings.Replace(wal, "20000", "0", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db, dsn := newStore(t, options)
			if name == "wrapped" {
				db = sql.OpenDB(&recordingDriver{file: dsn})
				t.Cleanup(func() { db.Close() })
				s = storeOn(t, db, sqlite.Options{})
			}
			missing := storeOn(t, db, sqlite.Options{Table: "missing"})
			swapOne := func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, creating("a")); return err }
			release := lock(t, dsn)
			for call, do := range map[string]func(context.Context) error{
				"migrate":          missing.Migrate,
				"purge":            func(ctx context.Context) error { _, err := s.Purge(ctx, 1); return err },
				"swap":             swapOne,
				"swap, cancelled":  swapOne,
				"load, by journal": func(ctx context.Context) error { _, _, err := s.Load(ctx, "a"); return err },
			} {
				waits := name != "no busy_timeout" || call == "migrate" || call == "purge"
				if !waits || name != "rollback journal" && call == "load, by journal" { // with WAL, readers do not wait
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				want := context.DeadlineExceeded
				if call == "swap, cancelled" {
					ctx, cancel = context.WithCancel(t.Context())
					defer time.AfterFunc(soon, cancel).Stop()
					want = context.Canceled
				}
				began := time.Now()
				err := do(ctx)
				require.Less(t, time.Since(began), soon+slack)
				require.ErrorIs(t, err, storage.ErrContended, call)
				require.ErrorIs(t, err, want, call)
			}
			defer time.AfterFunc(soon, release).Stop()
			require.NoError(t, missing.Migrate(t.Context()))
			swap(t, s, creating("a"))
		})
	}
}

// Without WAL, a commit waits for readers until the busy_timeout.
func TestCommitFailsWhileAReaderHoldsTheLock(t *testing.T) {
	s, db, dsn := newStore(t, strings.Replace(journal, "20000", "30", 1))
	db.SetMaxOpenConns(1)
	add(t, s, "a")
	rows, err := openDB(t, dsn).Query("SELECT key FROM " + sqlite.DefaultTable)
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	require.ErrorIs(t, s.Transact(t.Context(), nil, adding("a"), adding("b")), storage.ErrContended)
	require.NoError(t, rows.Close())
	require.Equal(t, 1, db.Stats().OpenConnections)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("b")))
	require.Equal(t, []uint64{2, 1}, numbers(t, s, "a", "b"))
}
