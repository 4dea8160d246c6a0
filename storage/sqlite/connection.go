package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// connection is a connection of the pool. It calls the driver directly, because package database/sql
// takes half as long again. It passes no context to the driver: no statement waits (see busy.go), and
// the state of an interrupted transaction would be unknown.
type connection struct {
	pooled      *sql.Conn
	driver      sqldriver.Conn            // of pooled; valid only inside of raw
	isReady     bool                      // the busy_timeout is disabled
	busyTimeout time.Duration             // of the user
	executed    map[string]sqldriver.Stmt // the statements of the store that were executed; nil if not prepared
	mustClose   bool                      // the state is unknown, so the pool must close it
	keepUntil   time.Time                 // the end of the time for which idle may keep it; zero if it was never kept
}

// withConnection calls use with a connection. use executes statements inside of raw. Then the store
// keeps the connection, or restores it and returns it to the pool.
func (s *Store) withConnection(ctx context.Context, use func(*connection) error) error {
	c, err := s.take(ctx)
	if err != nil {
		return wrap(err)
	}
	isKept := false
	defer func() { // also if use panics
		if !isKept {
			c.release()
		}
	}()
	if !c.isReady {
		c.isReady = true
		if err := c.raw(c.disableBusyTimeout); err != nil {
			return wrap(err)
		}
	}
	err = use(c)
	isKept = err == nil && s.idle.keep(c)
	return err
}

// take returns the kept connection, or else a connection of the pool.
func (s *Store) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c := s.idle.take(); c != nil {
		return c, nil
	}
	c := &connection{executed: map[string]sqldriver.Stmt{}}
	// SQLite does not wait if several connections switch a new file to WAL at the same time.
	err := retryBusy(ctx, openTimeout, func() (err error) {
		c.pooled, err = s.db.Conn(ctx)
		return err
	})
	return c, err
}

// raw calls do, which may use c.driver. If do panics, package database/sql closes the connection. The
// statements must be closed before, because SQLite keeps the lock while a statement is open.
func (c *connection) raw(do func() error) (err error) {
	rawErr := c.pooled.Raw(func(inner any) error {
		c.driver = inner.(sqldriver.Conn)
		returned := false
		defer func() {
			if !returned {
				c.finalize()
			}
		}()
		err = do()
		returned = true
		return nil
	})
	if rawErr != nil {
		return rawErr
	}
	c.mustClose = c.mustClose || errors.Is(err, sqldriver.ErrBadConn)
	return err
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

// transaction calls do in a transaction that holds the write lock. do executes statements inside of
// raw. If do panics, the transaction is rolled back, and the connection stays usable. All errors prove
// that nothing was stored, except an error of COMMIT.
func (s *Store) transaction(ctx context.Context, do func(*connection) error) error {
	var commit error
	err := s.withConnection(ctx, func(c *connection) error {
		if err := c.raw(func() error { return c.begin(ctx) }); err != nil {
			return wrap(err)
		}
		committed := false
		defer func() {
			if !committed {
				_ = c.raw(c.rollback)
			}
		}()
		if err := do(c); err != nil {
			return wrap(err)
		}
		// Without WAL, the commit waits for readers.
		commit = c.raw(func() error { return c.execRetryBusy(ctx, "COMMIT") })
		committed = commit == nil
		return wrap(commit)
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

// rollback ends a failed transaction. Some errors have ended it already, and then ROLLBACK fails.
// SQLite reports whether a transaction is still open. A driver that wraps go-sqlite3 does not report
// it, so then any error means that a transaction may be open.
func (c *connection) rollback() error {
	_, err := c.exec("ROLLBACK")
	mayBeOpen := err != nil
	if raw, ok := c.driver.(*sqlite3.SQLiteConn); ok {
		mayBeOpen = !raw.AutoCommit()
	}
	c.mustClose = c.mustClose || mayBeOpen
	return err
}
