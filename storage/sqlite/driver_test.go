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

// around is a driver around the driver that speaks contexts only, and notes and fails
// what it is asked. It has the bytes of all rows in one place.
type around struct {
	file     string
	fail     func(text string) error
	failed   func(text string) error // after the statement
	mu       sync.Mutex              // a connection may be given back while others are asked
	asked    []string
	prepared int
	bytes    [100]byte
}

func (a *around) Driver() sqldriver.Driver { return &sqlite3.SQLiteDriver{} }

func (a *around) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := a.Driver().Open(a.file)
	if err != nil {
		return nil, err
	}
	return aroundConn{conn.(*sqlite3.SQLiteConn), a}, nil
}

// work is how many statements were executed directly or prepared.
func (a *around) work() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked) + a.prepared
}

func (a *around) ask(text string) error {
	a.mu.Lock()
	a.asked = append(a.asked, text)
	a.mu.Unlock()
	if a.fail != nil {
		return a.fail(text)
	}
	return nil
}

type aroundConn struct {
	*sqlite3.SQLiteConn
	around *around
}

func (c aroundConn) Prepare(string) (sqldriver.Stmt, error) {
	return nil, errors.New("asked without a context")
}

func (c aroundConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	c.around.mu.Lock()
	c.around.prepared++
	c.around.mu.Unlock()
	stmt, err := c.SQLiteConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return aroundStmt{stmt.(*sqlite3.SQLiteStmt)}, nil
}

func (c aroundConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := c.around.ask(text); err != nil {
		return nil, err
	}
	r, err := c.SQLiteConn.ExecContext(ctx, text, args)
	if err == nil && c.around.failed != nil {
		err = c.around.failed(text)
	}
	return r, err
}

func (c aroundConn) QueryContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := c.around.ask(text); err != nil {
		return nil, err
	}
	rows, err := c.SQLiteConn.QueryContext(ctx, text, args)
	return aroundRows{rows, c.around}, err
}

type aroundStmt struct{ *sqlite3.SQLiteStmt }

func (aroundStmt) Exec([]sqldriver.Value) (sqldriver.Result, error) {
	return nil, errors.New("asked without a context")
}

func (aroundStmt) Query([]sqldriver.Value) (sqldriver.Rows, error) {
	return nil, errors.New("asked without a context")
}

type aroundRows struct {
	sqldriver.Rows
	around *around
}

func (r aroundRows) Next(row []sqldriver.Value) error {
	err := r.Rows.Next(row)
	for i := range row {
		if b, ok := row[i].([]byte); ok {
			row[i] = r.around.bytes[:copy(r.around.bytes[:], b)]
		}
	}
	return err
}

func openAround(t *testing.T) (*sqlite.Store, *sql.DB, *around) {
	a := &around{file: "file:" + filepath.Join(t.TempDir(), "around.db") + wal}
	db := sql.OpenDB(a)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return open(t, db, sqlite.Options{}), db, a
}

// failing fails statements that begin so.
func failing(prefix string, err error) func(string) error {
	return func(text string) error {
		if strings.HasPrefix(text, prefix) {
			return err
		}
		return nil
	}
}

// swapTwo makes two swaps that must succeed.
func swapTwo(t *testing.T, s *sqlite.Store) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), creating("a"), creating("b"))
	require.NoError(t, err)
	require.True(t, swapped)
}

func TestADriverThatSpeaksContexts(t *testing.T) {
	s, _, _ := openAround(t)
	swapTwo(t, s)
	records, err := s.Load(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 0}, []int{len(records[0].State), len(records[1].State), len(records[2].State)})
}

// The memory of a row is the driver's, who may use it again.
func TestRecordsAreApartFromTheDriversMemory(t *testing.T) {
	s, _, a := openAround(t)
	_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
	require.NoError(t, err)
	records, err := s.Load(t.Context(), "a")
	require.NoError(t, err)
	clear(a.bytes[:])
	require.Equal(t, "new", string(records[0].State))
}

// What the database itself refuses to end is ended with the connection.
func TestATransactionThatCannotEnd(t *testing.T) {
	denies := false
	name := fmt.Sprint("sqlite3 that denies ", time.Now().UnixNano())
	sql.Register(name, &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterAuthorizer(func(op int, what, _, _ string) int {
			if denies && op == sqlite3.SQLITE_TRANSACTION && what != "BEGIN" {
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
	denies = true
	_, _, err = s.CompareAndSwap(t.Context(), creating("a"))
	require.ErrorContains(t, err, "not authorized")
	require.NotErrorIs(t, err, storage.ErrNotApplied, "of the commit")
	require.Zero(t, db.Stats().OpenConnections)
	denies = false
	swapTwo(t, s)
}

// A connection that cannot be made what it was does not go back to the pool.
func TestAConnectionInDoubt(t *testing.T) {
	no := errors.New("no")
	for name, test := range map[string]struct {
		fail     func(text string) error
		err      error
		proven   bool
		goesBack bool
	}{
		"the transaction goes on": {fail: func(text string) error {
			return errors.Join(failing("COMMIT", no)(text), failing("ROLLBACK", no)(text))
		}, err: no},
		"it has ended":              {fail: failing("INSERT", no), err: no, proven: true, goesBack: true},
		"it does not wait again":    {fail: failing("PRAGMA busy_timeout = 20000", no)},
		"it is broken":              {fail: failing("INSERT", sqldriver.ErrBadConn), err: sqldriver.ErrBadConn, proven: true},
		"it does not tell how long": {fail: failing("PRAGMA busy_timeout", no), err: no, proven: true, goesBack: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, a := openAround(t)
			a.fail = test.fail
			_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.proven, errors.Is(err, storage.ErrNotApplied))
			require.Equal(t, test.goesBack, db.Stats().OpenConnections == 1)
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

// Only of a failed COMMIT it is not known whether a swap was applied.
func TestWhatIsProvenOfASwap(t *testing.T) {
	for prefix, proven := range map[string]bool{"PRAGMA busy_timeout": true, "PRAGMA busy_timeout = 0": true, "BEGIN": true, "SELECT": true, "INSERT": true, "COMMIT": false} {
		s, _, a := openAround(t)
		a.fail = failing(prefix, sqlite3.Error{Code: sqlite3.ErrIoErr})
		_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorIs(t, err, storage.ErrUnavailable, prefix)
		require.Equal(t, proven, errors.Is(err, storage.ErrNotApplied), prefix)
		a.fail = nil
		swapTwo(t, s)
	}
	s, _, a := openAround(t)
	a.fail = failing("PRAGMA busy_timeout", errors.New("no"))
	_, err := s.Load(t.Context(), "there")
	require.Error(t, err)
	require.NotErrorIs(t, err, storage.ErrNotApplied, "of a load there is nothing to prove")
}

// A driver around the driver may fail when the statement has done what it says.
func TestAFailureAfterTheStatement(t *testing.T) {
	no := errors.New("the log is full")
	for prefix, applied := range map[string]bool{"BEGIN": false, "INSERT": false, "COMMIT": true} {
		s, db, a := openAround(t)
		a.failed = failing(prefix, no)
		_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorIs(t, err, no, prefix)
		require.Equal(t, !applied, errors.Is(err, storage.ErrNotApplied), prefix)
		if prefix != "INSERT" { // it is not known whether a transaction is open
			require.Zero(t, db.Stats().OpenConnections, prefix)
		}
		a.failed = nil
		other, err := sql.Open("sqlite3", a.file)
		require.NoError(t, err)
		t.Cleanup(func() { other.Close() })
		_, err = other.Exec("BEGIN IMMEDIATE; ROLLBACK")
		require.NoError(t, err, "the lock is free")
		records, err := s.Load(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, applied, records[0].Version != 0, prefix)
	}
}

// A clock of the user may panic in the middle of a transaction.
func TestAPanicLeavesNothingLocked(t *testing.T) {
	db := database(t, "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=200")
	clock := time.Now
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return clock() }})
	clock = func() time.Time { panic("the clock") }
	require.Panics(t, func() { _, _, _ = s.CompareAndSwap(t.Context(), creating("a")) })
	require.Panics(t, func() { _, _ = s.Load(t.Context(), "a") })
	require.Zero(t, db.Stats().InUse)
	clock = time.Now
	swapTwo(t, s)
}
