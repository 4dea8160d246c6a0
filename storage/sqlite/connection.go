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

// connection is one of the pool, lent to calls. It speaks to the driver itself, because
// package sql takes half as long again; and without a context, because nothing that it
// does waits (see busy.go), and an interrupted transaction would leave it in doubt.
type connection struct {
	pooled      *sql.Conn
	driver      sqldriver.Conn // of pooled, within raw
	ready       bool
	busyTimeout time.Duration // the busy_timeout of the user
	executed    []execution   // of the few statements there are
	doubtful    bool          // must not go back to the pool
	due         time.Time     // when idle gives it back; zero if it has not been kept
}

// lend lends a connection to a call, which calls raw for its statements. Afterwards the store keeps
// the connection, or gives it back to the pool as it was.
func (s *Store) lend(ctx context.Context, use func(*connection) error) error {
	c, err := s.take(ctx)
	if err != nil {
		return failure(err)
	}
	kept := false
	defer func() { // also if use panics
		if !kept {
			c.giveBack()
		}
	}()
	if err := c.makeReady(); err != nil {
		return failure(err)
	}
	err = use(c)
	kept = err == nil && s.idle.keep(c)
	return err
}

// take takes the connection that was kept, or else one of the pool.
func (s *Store) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c := s.idle.take(); c != nil {
		return c, nil
	}
	c := new(connection)
	// SQLite does not wait when several connections switch a new file to WAL at once.
	err := retryBusy(ctx, openTimeout, func() (err error) {
		c.pooled, err = s.db.Conn(ctx)
		return err
	})
	return c, err
}

// raw does something with the driver's connection, which do alone may use. If do panics, package
// sql closes the connection, and SQLite does not unlock while a statement is open.
func (c *connection) raw(do func() error) (err error) {
	gone := c.pooled.Raw(func(inner any) error {
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
	if gone != nil {
		return gone
	}
	c.doubtful = c.doubtful || errors.Is(err, sqldriver.ErrBadConn)
	return err
}

func (c *connection) makeReady() error {
	if c.ready {
		return nil
	}
	c.ready = true
	return c.raw(c.disableBusyTimeout)
}

// giveBack gives the connection back to the pool as it was there, unless it is in doubt: then
// package sql closes it.
func (c *connection) giveBack() {
	defer c.pooled.Close()
	_ = c.pooled.Raw(func(any) error {
		if c.restoreBusyTimeout() != nil {
			c.doubtful = true
		}
		c.finalize()
		if c.doubtful {
			return sqldriver.ErrBadConn
		}
		return nil
	})
}

// transaction runs do in a transaction that has the write lock. do calls raw for its
// statements. If do panics, the transaction is undone and the connection stays usable. Only the
// error of a COMMIT leaves open whether the transaction was stored.
func (s *Store) transaction(ctx context.Context, do func(*connection) error) error {
	var commit error
	err := s.lend(ctx, func(c *connection) error {
		if err := c.raw(func() error { return c.begin(ctx) }); err != nil {
			return failure(err)
		}
		committed := false
		defer func() {
			if !committed {
				_ = c.raw(c.rollback)
			}
		}()
		if err := do(c); err != nil {
			return failure(err)
		}
		// Without WAL the commit waits for those who read.
		commit = c.raw(func() error { return c.execRetryBusy(ctx, "COMMIT") })
		committed = commit == nil
		return failure(commit)
	})
	if err != nil && commit == nil {
		return storage.NotApplied(err)
	}
	return err
}

func (c *connection) begin(ctx context.Context) error {
	err := c.execRetryBusy(ctx, "BEGIN IMMEDIATE")
	if err != nil && !errors.As(err, new(sqlite3.Error)) {
		c.doubtful = true // a driver around the driver may fail when it has begun
	}
	return err
}

// rollback ends a transaction that failed. Some failures have ended it already, and
// ROLLBACK then fails: SQLite tells whether one is still open, of a driver around the
// driver any failure is doubt.
func (c *connection) rollback() error {
	_, err := c.exec("ROLLBACK")
	open := err != nil
	if raw, ok := c.driver.(*sqlite3.SQLiteConn); ok {
		open = !raw.AutoCommit()
	}
	c.doubtful = c.doubtful || open
	return err
}
