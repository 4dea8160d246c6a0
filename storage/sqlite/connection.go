package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// connection is a connection of the pool with a busy_timeout of 0. Its statements get no context: none of them
// waits (see busy.go), and the state of an interrupted transaction would be unknown.
type connection struct {
	pooled      *sql.Conn
	busyTimeout time.Duration // of the user
	keepUntil   time.Time     // the end of the time for which idle may keep it; zero if it was never kept
}

// withConnection calls use with a connection. Then the store keeps the connection, or restores it and
// returns it to the pool.
func (s *Store) withConnection(ctx context.Context, use func(*connection) error) error {
	c, err := s.take(ctx)
	if err != nil {
		return wrap(err)
	}
	succeeded := false
	defer func() { // also if use panics or calls runtime.Goexit
		if !succeeded || !s.idle.keep(c, s.db.Stats()) {
			c.release()
		}
	}()
	err = use(c)
	succeeded = err == nil
	if hasCode(err, sqlite3.ErrReadonly, sqlite3.ErrIoErr, sqlite3.ErrCorrupt, sqlite3.ErrNotADB) {
		c.discard() // the file may be another one, whole or writable for a new connection
	}
	return wrap(err)
}

// take returns the kept connection, or else a connection of the pool.
func (s *Store) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c := s.idle.take(); c != nil {
		return c, nil
	}
	c := new(connection)
	// SQLite does not wait if several connections switch a new file to WAL at the same time.
	err := retryBusy(ctx, minWait, func() (err error) {
		c.pooled, err = s.db.Conn(ctx)
		return err
	})
	if err != nil && err == ctx.Err() {
		err = fmt.Errorf("cannot get a connection from the pool: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if err := c.disableBusyTimeout(); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// release restores the connection and returns it to the pool.
func (c *connection) release() {
	if c.restoreBusyTimeout() != nil {
		c.discard()
	}
	c.pooled.Close()
}

// discard makes the pool close the connection, because its state is unknown.
func (c *connection) discard() {
	_ = c.pooled.Raw(func(any) error { return sqldriver.ErrBadConn })
}

// transaction calls do in a transaction that holds the write lock. It rolls back if do fails, panics or calls runtime.Goexit.
// All errors prove that nothing was stored, except those of COMMIT. If the disk is full, SQLite rolls back.
func (s *Store) transaction(ctx context.Context, do func(*connection) error) error {
	var commit error
	err := s.withConnection(ctx, func(c *connection) error {
		err := c.execRetryBusy(ctx, "BEGIN IMMEDIATE")
		if errors.As(err, new(sqlite3.Error)) {
			return err
		}
		// A driver that wraps go-sqlite3 may fail after SQLite has begun the transaction.
		committed := false
		defer func() {
			if !committed {
				c.rollback()
			}
		}()
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
			return err
		}
		commit = c.execRetryBusy(ctx, "COMMIT") // without WAL, it waits for readers
		committed = commit == nil
		return commit
	})
	if err != nil && (commit == nil || hasCode(commit, sqlite3.ErrFull)) {
		return storage.NotApplied(err)
	}
	return err
}

// rollback ends a transaction, unless an error has ended it. It discards the connection if the transaction may
// still be open.
func (c *connection) rollback() {
	_, err := c.exec("ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		c.discard()
	}
}

// exec executes a statement and returns the number of rows that it changed.
func (c *connection) exec(text string, args ...any) (rows int64, err error) {
	r, err := c.pooled.ExecContext(context.Background(), text, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query executes a query and scans its first row, if there is one, into the destinations.
func (c *connection) query(text string, args []any, into ...any) (found bool, err error) {
	err = c.pooled.QueryRowContext(context.Background(), text, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// list returns the live keys among the first max ones from first to last, and the cursor of the next page.
func (c *connection) list(text, first, last string, now int64, max int) (keys []string, next string, err error) {
	rows, err := c.pooled.QueryContext(context.Background(), text, now, []byte(first), []byte(last), max)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }() // rows.Err has its error
	key, isLive := "", false
	for count := 0; rows.Next(); {
		if err := rows.Scan(&key, &isLive); err != nil {
			return nil, "", err
		}
		if isLive {
			keys = append(keys, key)
		}
		if count++; count == max {
			next = driver.CursorAfter(key)
		}
	}
	return keys, next, rows.Err()
}

// keepFor is the maximum time for which the store keeps a connection. A call under load takes some tens
// of microseconds, so hundreds of calls share a connection.
const keepFor = 10 * time.Millisecond

// idle keeps a connection for the next call. Without it, a decision for a single caller would take a third more
// processor time, because each call would prepare and restore its connection.
type idle struct {
	mu      sync.Mutex
	conn    *connection // nil if none is kept
	lastEnd time.Time   // the time when a call ended last
}

// take returns the kept connection, or nil.
func (i *idle) take() *connection {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.conn
	i.conn = nil
	return c
}

// keep keeps c and returns true if the store is under load: another call has ended within keepFor. It never keeps the last
// connection of the pool. A timer releases the connection after the last call.
func (i *idle) keep(c *connection, pool sql.DBStats) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	underLoad := now.Sub(i.lastEnd) < keepFor
	i.lastEnd = now
	if !underLoad || i.conn != nil || pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections {
		return false
	}
	if c.keepUntil.IsZero() {
		c.keepUntil = now.Add(keepFor)
		time.AfterFunc(keepFor, func() {
			if kept := i.take(); kept != nil {
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
