package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// connection is one of the pool, lent to calls. It speaks to the driver itself, because
// package sql takes half as long again; and without a context, because nothing that it
// does waits (see patience.go), and an interrupted transaction would leave it in doubt.
type connection struct {
	pooled   *sql.Conn
	driver   driver.Conn // of pooled, within raw
	ready    bool
	patience time.Duration // the busy_timeout of the user
	executed []execution   // of the few statements there are
	doubtful bool          // must not go back to the pool
}

// connect lends a connection of the pool, which gets it back as it was: after the call,
// or after others of its series.
func (s *Store) connect(ctx context.Context, use func(*connection) error) error {
	series := s.series(ctx)
	c, err := s.take(ctx, series)
	if err != nil {
		return failure(err)
	}
	kept := false
	defer func() {
		if !kept {
			c.pooled.Close()
		}
	}()
	return c.raw(func() error {
		defer func() { // also if use panics: SQLite does not unlock while a statement is open
			if !kept {
				c.restore()
			}
		}()
		if err := c.makeReady(); err != nil {
			return failure(err)
		}
		err := use(c)
		kept = err == nil && series.keep(c)
		return err
	})
}

// take takes the connection that the series has kept, or else one of the pool.
func (s *Store) take(ctx context.Context, series *series) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c := series.take(); c != nil {
		return c, nil
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{pooled: conn}, nil
}

// raw does something with the driver's connection. If that is then in doubt, or if do
// panics, package sql will close it.
func (c *connection) raw(do func() error) error {
	asked, told := false, error(nil)
	err := c.pooled.Raw(func(inner any) error {
		c.driver, asked = inner.(driver.Conn), true
		if told = do(); c.doubtful {
			return driver.ErrBadConn
		}
		return told
	})
	if asked { // others may have c by now
		return told
	}
	return err
}

func (c *connection) makeReady() error {
	if c.ready {
		return nil
	}
	c.ready = true
	return c.stopWaiting()
}

// restore makes the connection what it was in the pool.
func (c *connection) restore() {
	if c.waitAgain() != nil {
		c.doubtful = true
	}
	c.finalize()
}

// transaction runs do in a transaction that has the write lock.
func (c *connection) transaction(ctx context.Context, do func() error) error {
	if err := c.insist(ctx, "BEGIN IMMEDIATE"); err != nil {
		c.doubtful = !errors.As(err, new(sqlite3.Error)) // a driver around the driver may fail when it has begun
		return storage.NotApplied(failure(err))
	}
	if err := do(); err != nil {
		c.rollback()
		return storage.NotApplied(failure(err))
	}
	// Without WAL the commit waits for those who read.
	if err := c.insist(ctx, "COMMIT"); err != nil {
		c.rollback()
		return failure(err)
	}
	return nil
}

// rollback ends a transaction that failed. Some failures have ended it already, and
// ROLLBACK then fails: SQLite tells whether one is still open, of a driver around the
// driver any failure is doubt.
func (c *connection) rollback() {
	_, err := c.exec("ROLLBACK")
	if raw, ok := c.driver.(*sqlite3.SQLiteConn); ok {
		c.doubtful = !raw.AutoCommit()
	} else {
		c.doubtful = err != nil
	}
}
