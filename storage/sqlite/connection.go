package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// connection is a connection of the pool. It calls the driver directly, because package database/sql
// takes half as long again. It passes no context to the driver: no statement waits (see busy.go), and
// the state of an interrupted transaction would be unknown.
type connection struct {
	pooled      *sql.Conn
	driver      sqldriver.Conn            // of pooled; nil before the first call; valid only inside of withConnection
	busyTimeout time.Duration             // of the user
	executed    map[string]sqldriver.Stmt // the statements of the store that were executed; nil if not prepared
	mustClose   bool                      // the state is unknown, so the pool must close it
	underLoad   bool                      // a call had ended within keepFor before it was taken from the pool
	keepUntil   time.Time                 // the end of the time for which idle may keep it; zero if it was never kept
}

// withConnection calls use with a connection. Then the store keeps the connection, or restores it and
// returns it to the pool.
func (s *Store) withConnection(ctx context.Context, use func(*connection) error) error {
	c, err := s.take(ctx)
	if err != nil {
		return wrap(err)
	}
	isKept := false
	defer func() {
		if !isKept {
			c.release()
		}
	}()
	var panicked any // raised outside of Raw, because package database/sql closes the connection if it sees the panic
	rawErr := c.pooled.Raw(func(inner any) error {
		defer func() { panicked = recover() }()
		isNew := c.driver == nil
		if c.driver = inner.(sqldriver.Conn); isNew {
			err = c.disableBusyTimeout()
		}
		if err == nil {
			err = use(c)
		}
		return nil
	})
	if panicked != nil {
		panic(panicked)
	}
	err = cmp.Or(err, rawErr)
	c.mustClose = c.mustClose || errors.Is(err, sqldriver.ErrBadConn)
	isKept = err == nil && s.idle.keep(c, s.db.Stats())
	return wrap(err)
}

// take returns the kept connection, or else a connection of the pool.
func (s *Store) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, underLoad := s.idle.take()
	if c != nil {
		return c, nil
	}
	c = &connection{executed: map[string]sqldriver.Stmt{}, underLoad: underLoad}
	// SQLite does not wait if several connections switch a new file to WAL at the same time.
	err := retryBusy(ctx, minWait, func() (err error) {
		c.pooled, err = s.db.Conn(ctx)
		return err
	})
	return c, err
}

// release restores the connection and returns it to the pool, which closes it if mustClose is set.
func (c *connection) release() {
	defer c.pooled.Close()
	_ = c.pooled.Raw(func(any) error {
		if c.restoreBusyTimeout() != nil {
			c.mustClose = true
		}
		c.finalize()
		if c.mustClose {
			return sqldriver.ErrBadConn
		}
		return nil
	})
}

// transaction calls do in a transaction that holds the write lock, and rolls it back if do fails or
// panics. All errors prove that nothing was stored, except an error of COMMIT.
func (s *Store) transaction(ctx context.Context, do func(*connection) error) error {
	var commit error
	err := s.withConnection(ctx, func(c *connection) error {
		if err := c.begin(ctx); err != nil {
			return err
		}
		committed := false
		defer func() {
			if !committed {
				c.rollback()
			}
		}()
		if err := do(c); err != nil {
			return err
		}
		commit = c.execRetryBusy(ctx, "COMMIT") // without WAL, it waits for readers
		committed = commit == nil
		return commit
	})
	if err != nil && commit == nil {
		return storage.NotApplied(err)
	}
	return err
}

func (c *connection) begin(ctx context.Context) error {
	err := c.execRetryBusy(ctx, "BEGIN IMMEDIATE")
	if err != nil && !errors.As(err, new(sqlite3.Error)) {
		c.mustClose = true // a driver that wraps go-sqlite3 may fail after SQLite has begun the transaction
	}
	return err
}

// rollback ends a failed transaction. Some errors have ended it already, and then ROLLBACK fails. If a
// driver that wraps go-sqlite3 does not report whether a transaction is still open, it may be.
func (c *connection) rollback() {
	_, err := c.exec("ROLLBACK")
	mayBeOpen := err != nil
	if raw, ok := c.driver.(*sqlite3.SQLiteConn); ok {
		mayBeOpen = !raw.AutoCommit()
	}
	c.mustClose = c.mustClose || mayBeOpen
}

// The functions below call the driver as package database/sql does: the methods with a context
// if the driver has them, else the methods that every driver has.

// exec executes a statement and returns the number of rows that it changed.
func (c *connection) exec(text string, args ...sqldriver.Value) (rows int64, err error) {
	ctx, values := context.Background(), named(args)
	r, err := execute(c, text, func() (sqldriver.Result, error) {
		if e, ok := c.driver.(sqldriver.ExecerContext); ok {
			return e.ExecContext(ctx, text, values)
		}
		return nil, sqldriver.ErrSkip
	}, func(s sqldriver.Stmt) (sqldriver.Result, error) {
		if e, ok := s.(sqldriver.StmtExecContext); ok {
			return e.ExecContext(ctx, values)
		}
		return s.Exec(args)
	})
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query executes a query and reads its first row, if there is one. The bytes in row belong to the
// driver and are valid until the next query.
func (c *connection) query(row []sqldriver.Value, text string, args ...sqldriver.Value) (found bool, err error) {
	ctx, values := context.Background(), named(args)
	rows, err := execute(c, text, func() (sqldriver.Rows, error) {
		if q, ok := c.driver.(sqldriver.QueryerContext); ok {
			return q.QueryContext(ctx, text, values)
		}
		return nil, sqldriver.ErrSkip
	}, func(s sqldriver.Stmt) (sqldriver.Rows, error) {
		if q, ok := s.(sqldriver.StmtQueryContext); ok {
			return q.QueryContext(ctx, values)
		}
		return s.Query(args)
	})
	if err != nil {
		return false, err
	}
	defer rows.Close()
	err = rows.Next(row)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// totalChanges returns how many rows this connection has changed, also by triggers.
func (c *connection) totalChanges() (int64, error) {
	row := make([]sqldriver.Value, 1)
	_, err := c.query(row, "SELECT total_changes()")
	n, _ := row[0].(int64)
	return n, err
}

func named(args []sqldriver.Value) []sqldriver.NamedValue {
	values := make([]sqldriver.NamedValue, len(args))
	for i, v := range args {
		values[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return values
}

// execute executes a statement directly the first time, which is cheaper for a single execution. Later,
// and if the driver returns ErrSkip, it executes a prepared statement.
func execute[R any](c *connection, text string, directly func() (R, error), withStmt func(sqldriver.Stmt) (R, error)) (result R, err error) {
	stmt, again := c.executed[text]
	if !again {
		c.executed[text] = nil
		if result, err = directly(); !errors.Is(err, sqldriver.ErrSkip) {
			return result, err
		}
	}
	if stmt == nil {
		if stmt, err = c.prepare(text); err != nil {
			return result, err
		}
		c.executed[text] = stmt
	}
	return withStmt(stmt)
}

func (c *connection) prepare(text string) (sqldriver.Stmt, error) {
	if p, ok := c.driver.(sqldriver.ConnPrepareContext); ok {
		return p.PrepareContext(context.Background(), text)
	}
	return c.driver.Prepare(text)
}

// finalize closes the prepared statements.
func (c *connection) finalize() {
	for _, stmt := range c.executed {
		if stmt != nil {
			stmt.Close()
		}
	}
	clear(c.executed)
}

// keepFor is the maximum time for which the store keeps a connection. A call under load takes some tens
// of microseconds, so hundreds of calls share a connection.
const keepFor = 10 * time.Millisecond

// idle keeps a connection for the next call. Without it, a quarter of the time of a transaction would be
// spent on preparing and restoring the connection.
type idle struct {
	mu      sync.Mutex
	conn    *connection // nil if none is kept
	lastEnd time.Time   // the time when a call ended last
}

// take returns the kept connection, or nil. It reports whether a call has ended within keepFor.
func (i *idle) take() (c *connection, underLoad bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c, i.conn = i.conn, nil
	return c, time.Since(i.lastEnd) < keepFor
}

// keep keeps c and returns true, or returns false. It never keeps the last connection of the pool. A timer
// releases the connection after the last call.
func (i *idle) keep(c *connection, pool sql.DBStats) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	i.lastEnd = now
	if !c.underLoad || i.conn != nil || pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections {
		return false
	}
	if c.keepUntil.IsZero() {
		c.keepUntil = now.Add(keepFor)
		time.AfterFunc(keepFor, func() {
			if kept, _ := i.take(); kept != nil {
				kept.release()
			}
		})
	}
	if !now.Before(c.keepUntil) {
		return false
	}
	i.conn = c
	return true
}
