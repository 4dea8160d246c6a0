package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// connection is one of the pool, lent to calls. It speaks to the driver without package
// sql, which would take half as long again, and without a context: nothing that it does
// waits (see patience.go), and an interrupted transaction would leave it in doubt.
type connection struct {
	*sql.Conn
	driver   driver.Conn // inside raw
	ready    bool
	patience time.Duration // the busy_timeout of the user
	executed []execution   // of the few statements there are
	doubtful bool          // must not go back to the pool
}

// execution is of a statement.
type execution struct {
	text     string
	prepared driver.Stmt // nil at first: once is cheaper as it is
}

// connect lends a connection of the pool, which gets it back as it was: after the call,
// or after others of its series.
func (s *Store) connect(ctx context.Context, use func(*connection) error) error {
	series := s.series(ctx)
	c, err := s.take(ctx, series)
	if err != nil {
		return storage.NotApplied(failure(err))
	}
	kept := false
	defer func() {
		if !kept {
			c.Close()
		}
	}()
	return c.raw(func() error {
		if err := c.prepare(); err != nil {
			return storage.NotApplied(failure(err))
		}
		err := use(c)
		if kept = err == nil && series.keep(c); !kept {
			c.restore()
		}
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
	return &connection{Conn: conn}, nil
}

// raw does something with the driver's connection. If that is then in doubt, or if do
// panics, package sql will close it.
func (c *connection) raw(do func() error) (err error) {
	_ = c.Raw(func(inner any) error {
		c.driver = inner.(driver.Conn)
		if err = do(); c.doubtful || errors.Is(err, driver.ErrBadConn) {
			return driver.ErrBadConn
		}
		return nil
	})
	return err
}

func (c *connection) prepare() (err error) {
	if !c.ready {
		err = c.stopWaiting()
		c.ready = err == nil
	}
	return err
}

// restore makes the connection what it was in the pool.
func (c *connection) restore() {
	c.waitAgain()
	for _, e := range c.executed {
		if e.prepared != nil {
			e.prepared.Close()
		}
	}
}

// exec executes a statement, and tells how many rows it changed.
func (c *connection) exec(text string, args ...driver.Value) (rows int64, err error) {
	r, err := execute(c, text, args, driver.Stmt.Exec, func(args []driver.NamedValue) (driver.Result, error) {
		if e, ok := c.driver.(driver.ExecerContext); ok {
			return e.ExecContext(context.Background(), text, args)
		}
		return nil, driver.ErrSkip
	})
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query reads the row that a statement finds, if it finds one.
func (c *connection) query(row []driver.Value, text string, args ...driver.Value) (found bool, err error) {
	rows, err := execute(c, text, args, driver.Stmt.Query, func(args []driver.NamedValue) (driver.Rows, error) {
		if q, ok := c.driver.(driver.QueryerContext); ok {
			return q.QueryContext(context.Background(), text, args)
		}
		return nil, driver.ErrSkip
	})
	if err != nil {
		return false, err
	}
	return read(rows, row)
}

// execute executes a statement: the first time as it is, which is cheaper, or is skipped
// by a driver that cannot; and from then on prepared.
func execute[R any](c *connection, text string, args []driver.Value,
	prepared func(driver.Stmt, []driver.Value) (R, error), asItIs func([]driver.NamedValue) (R, error)) (result R, err error) {
	e, first := c.execution(text)
	if first {
		if result, err = asItIs(named(args)); !errors.Is(err, driver.ErrSkip) {
			return result, err
		}
	}
	if e.prepared == nil {
		if e.prepared, err = c.driver.Prepare(text); err != nil {
			return result, err
		}
	}
	return prepared(e.prepared, args)
}

func named(args []driver.Value) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, v := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return values
}

func read(rows driver.Rows, row []driver.Value) (found bool, err error) {
	defer rows.Close()
	err = rows.Next(row)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

func (c *connection) execution(text string) (e *execution, first bool) {
	for i := range c.executed {
		if c.executed[i].text == text {
			return &c.executed[i], false
		}
	}
	c.executed = append(c.executed, execution{text: text})
	return &c.executed[len(c.executed)-1], true
}

// rollback ends a transaction that failed; some failures have ended it already.
func (c *connection) rollback() {
	_, _ = c.exec("ROLLBACK")
	if raw, ok := c.driver.(*sqlite3.SQLiteConn); ok && !raw.AutoCommit() {
		c.doubtful = true
	}
}
