package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mattn/go-sqlite3"
)

// connection is one of the pool that does not wait for locks by itself, because
// SQLite does not hear of a context while it waits.
type connection struct {
	*sql.Conn
	patience time.Duration // the busy_timeout of the user
}

// connection takes one from the pool.
func (s *Store) connection(ctx context.Context) (*connection, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, failure(err)
	}
	c := &connection{Conn: conn}
	ms, err := c.stopWaiting()
	if err != nil {
		conn.Close()
		return nil, failure(err)
	}
	c.patience = time.Duration(ms) * time.Millisecond
	return c, nil
}

// release puts the connection back into the pool as it was.
func (c *connection) release() {
	if c.patience > 0 {
		ms := strconv.FormatInt(c.patience.Milliseconds(), 10)
		_, _ = c.ExecContext(context.Background(), setPatience+ms)
	}
	c.Close()
}

// None of these touches the file.
const (
	askPatience = "PRAGMA busy_timeout"
	setPatience = "PRAGMA busy_timeout = "
	noPatience  = setPatience + "0"
)

// stopWaiting has SQLite fail at once where it would wait, and tells how many
// milliseconds it would. It asks every time: the connections of a pool may differ,
// and the user may change one at any time.
func (c *connection) stopWaiting() (ms int64, err error) {
	wrapped := false // by a driver around the driver
	err = c.Raw(func(inner any) (err error) {
		if raw, ok := inner.(*sqlite3.SQLiteConn); ok {
			ms, err = stopDriver(raw)
			return err
		}
		wrapped = true
		return nil
	})
	if !wrapped || err != nil {
		return ms, err
	}
	if err = c.QueryRowContext(context.Background(), askPatience).Scan(&ms); ms > 0 {
		_, err = c.ExecContext(context.Background(), noPatience)
	}
	return ms, err
}

// stopDriver is stopWaiting without package sql, in half the time.
func stopDriver(raw *sqlite3.SQLiteConn) (ms int64, err error) {
	rows, err := raw.QueryContext(context.Background(), askPatience, nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	answer := make([]driver.Value, 1)
	if err := rows.Next(answer); err != nil {
		return 0, err
	}
	if ms, _ = answer[0].(int64); ms > 0 {
		_, err = raw.ExecContext(context.Background(), noPatience, nil)
	}
	return ms, err
}

const (
	firstPause   = 500 * time.Microsecond
	longestPause = 2 * time.Millisecond // much longer than a decision keeps the lock
)

// patiently does what may find the database locked, until it does not, the
// context ends, or the patience of the user.
func (c *connection) patiently(ctx context.Context, do func(context.Context) error) error {
	start, pause := time.Now(), firstPause
	for {
		err := do(context.WithoutCancel(ctx))
		var e sqlite3.Error
		if !errors.As(err, &e) || !isBusy(e) || time.Since(start) >= c.patience {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(rand.N(pause)):
			pause = min(2*pause, longestPause)
		}
	}
}

// insist executes a statement patiently.
func (c *connection) insist(ctx context.Context, statement string) error {
	return c.patiently(ctx, func(ctx context.Context) error {
		_, err := c.ExecContext(ctx, statement)
		return err
	})
}

// rollback ends a transaction that failed; some failures have ended it already.
// A connection that is still inside one must not go back to the pool.
func (c *connection) rollback() {
	_, _ = c.ExecContext(context.Background(), "ROLLBACK")
	_ = c.Raw(func(inner any) error {
		if raw, ok := inner.(*sqlite3.SQLiteConn); ok && !raw.AutoCommit() {
			return driver.ErrBadConn
		}
		return nil
	})
}
