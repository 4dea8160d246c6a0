package sqlite_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
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

func openRecording(t *testing.T) (*sqlite.Store, *sql.DB, *recordingDriver) {
	a := &recordingDriver{file: "file:" + filepath.Join(t.TempDir(), "recording.db") + wal}
	db := sql.OpenDB(a)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return open(t, db, sqlite.Options{}), db, a
}

// failing returns err for statements with a prefix.
func failing(prefix string, err error) func(string) error {
	return func(text string) error {
		if strings.HasPrefix(text, prefix) {
			return err
		}
		return nil
	}
}

// swapTwo applies two swaps that must succeed.
func swapTwo(t *testing.T, s *sqlite.Store) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), creating("a"), creating("b"))
	require.NoError(t, err)
	require.True(t, swapped)
}

func TestConnectionIsClosedIfItsTransactionCannotEnd(t *testing.T) {
	deny := false
	name := fmt.Sprint("sqlite3 that denies ", time.Now().UnixNano())
	sql.Register(name, &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterAuthorizer(func(op int, what, _, _ string) int {
			if deny && op == sqlite3.SQLITE_TRANSACTION && what != "BEGIN" {
				return sqlite3.SQLITE_DENY
			}
			return sqlite3.SQLITE_OK
		})
		return nil
	}})
	db, err := sql.Open(name, "file:"+filepath.Join(t.TempDir(), "denies.db")+wal)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	s := open(t, db, sqlite.Options{})
	deny = true
	_, _, err = s.CompareAndSwap(t.Context(), creating("a"))
	require.ErrorContains(t, err, "not authorized")
	require.NotErrorIs(t, err, storage.ErrNotApplied, "COMMIT failed")
	require.Zero(t, db.Stats().OpenConnections)
	deny = false
	swapTwo(t, s)
}

func TestConnectionIsClosedIfItsStateIsUnknown(t *testing.T) {
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		fail       func(text string) error
		err        error
		notApplied bool
		reused     bool
	}{
		"COMMIT and ROLLBACK failed": {fail: func(text string) error {
			return errors.Join(failing("COMMIT", failed)(text), failing("ROLLBACK", failed)(text))
		}, err: failed},
		"the transaction was rolled back":     {fail: failing("INSERT", failed), err: failed, notApplied: true, reused: true},
		"busy_timeout cannot be restored":     {fail: failing("PRAGMA busy_timeout = 20000", failed)},
		"the driver reports a bad connection": {fail: failing("INSERT", sqldriver.ErrBadConn), err: sqldriver.ErrBadConn, notApplied: true},
		"ROLLBACK failed after BEGIN did": {fail: func(text string) error {
			return errors.Join(failing("BEGIN", failed)(text), failing("ROLLBACK", failed)(text))
		}, err: failed, notApplied: true},
		"busy_timeout cannot be read": {fail: failing("PRAGMA busy_timeout", failed), err: failed, notApplied: true, reused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, a := openRecording(t)
			a.fail = test.fail
			_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.notApplied, errors.Is(err, storage.ErrNotApplied))
			require.Equal(t, test.reused, db.Stats().OpenConnections == 1)
			a.fail = nil
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			require.Equal(t, 20000, busyTimeout(t, conn))
			_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK")
			require.NoError(t, err)
		})
	}
}

// A driver that wraps go-sqlite3 may return an error after SQLite has executed the statement.
func TestErrorAfterTheStatementWasExecuted(t *testing.T) {
	failed := errors.New("the log is full")
	for prefix, applied := range map[string]bool{"BEGIN": false, "INSERT": false, "COMMIT": true} {
		s, db, a := openRecording(t)
		a.failed = failing(prefix, failed)
		_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorIs(t, err, failed, prefix)
		require.Equal(t, !applied, errors.Is(err, storage.ErrNotApplied), prefix)
		require.Equal(t, 1, db.Stats().OpenConnections, "ROLLBACK shows that no transaction is open")
		a.failed = nil
		other, err := sql.Open("sqlite3", a.file)
		require.NoError(t, err)
		t.Cleanup(func() { other.Close() })
		_, err = other.Exec("BEGIN IMMEDIATE; ROLLBACK")
		require.NoError(t, err, "the lock is free")
		records, _, err := s.Load(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, applied, records[0].Version != 0, prefix)
	}
}

// A user of the pool may begin a transaction outside of sql.Tx, if the pool has a single connection.
func TestOpenTransactionOfTheUserIsNotRolledBack(t *testing.T) {
	s, db, _ := shared(t, wal)
	db.SetMaxOpenConns(1)
	_, err := db.Exec("BEGIN; CREATE TABLE users (id)")
	require.NoError(t, err)
	require.ErrorContains(t, s.Transact(t.Context(), nil, adding("a")), "cannot start a transaction within a transaction")
	_, err = db.Exec("INSERT INTO users VALUES (1); COMMIT")
	require.NoError(t, err)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
}
