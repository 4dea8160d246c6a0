package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mattn/go-sqlite3"
)

// connection is one of the pool that does not wait for locks by itself, because
// SQLite does not hear of a context while it waits.
type connection struct {
	*sql.Conn
	patience time.Duration // the busy_timeout of the user
}

// connection takes one from the pool; release puts it back as it was.
func (s *Store) connection(ctx context.Context) (c *connection, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, failure(err)
	}
	c = &connection{Conn: conn}
	ms, err := s.busyTimeout(context.WithoutCancel(ctx), conn)
	if err != nil {
		conn.Close()
		return nil, nil, failure(err)
	}
	c.patience = time.Duration(ms) * time.Millisecond
	c.wait(0)
	return c, func() {
		c.wait(ms)
		conn.Close()
	}, nil
}

// busyTimeout is what the user has set, for all connections: it is asked for once.
func (s *Store) busyTimeout(ctx context.Context, conn *sql.Conn) (ms int64, err error) {
	if known := s.waits.Load(); known > 0 {
		return known - 1, nil
	}
	if err = conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&ms); err == nil {
		s.waits.Store(ms + 1)
	}
	return ms, err
}

// wait sets how many milliseconds SQLite waits for a lock.
func (c *connection) wait(ms int64) {
	if c.patience > 0 {
		_, _ = c.ExecContext(context.Background(), fmt.Sprintf("PRAGMA busy_timeout = %d", ms)) // touches no file
	}
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

func isBusy(e sqlite3.Error) bool {
	return e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked || e.Code == sqlite3.ErrProtocol
}
