package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"io"
)

// The functions of this file call the driver as package database/sql does: the methods with a context
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

func named(args []sqldriver.Value) []sqldriver.NamedValue {
	values := make([]sqldriver.NamedValue, len(args))
	for i, v := range args {
		values[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return values
}

// execute executes a statement directly the first time, because this is cheaper for a single
// execution. Later, and if the driver returns ErrSkip, it executes a prepared statement.
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
