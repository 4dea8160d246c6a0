package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"io"
)

// What follows speaks to the driver, or to one that wraps it. As package sql does, it calls
// the methods that take a context where there are such, else those that every driver has.

// execution is a statement that was executed on a connection.
type execution struct {
	text     string
	prepared sqldriver.Stmt // nil at first: to execute it once is cheaper without
}

// exec executes a statement, and tells how many rows it changed.
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

// query reads the row that a statement finds, if it finds one. Its bytes are the
// driver's, until the next query.
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

// execute executes a statement: the first time directly, which is cheaper for one use;
// prepared from then on, or if the driver cannot (ErrSkip).
func execute[R any](c *connection, text string, directly func() (R, error), byStatement func(sqldriver.Stmt) (R, error)) (result R, err error) {
	e, first := c.execution(text)
	if first {
		if result, err = directly(); !errors.Is(err, sqldriver.ErrSkip) {
			return result, err
		}
	}
	if e.prepared == nil {
		if e.prepared, err = c.prepare(text); err != nil {
			return result, err
		}
	}
	return byStatement(e.prepared)
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

func (c *connection) prepare(text string) (sqldriver.Stmt, error) {
	if p, ok := c.driver.(sqldriver.ConnPrepareContext); ok {
		return p.PrepareContext(context.Background(), text)
	}
	return c.driver.Prepare(text)
}

// finalize ends the prepared statements.
func (c *connection) finalize() {
	for _, e := range c.executed {
		if e.prepared != nil {
			e.prepared.Close()
		}
	}
	c.executed = nil
}
