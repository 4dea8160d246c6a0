package sqlite

import (
	"database/sql"
	"sync"
	"time"
)

// keepFor is the maximum time for which the store keeps a connection. A call under load takes some tens
// of microseconds, so hundreds of calls share a connection.
const keepFor = 10 * time.Millisecond

// idle keeps the connection of a call for the next call, if calls follow each other within keepFor.
// Without it, a quarter of the time of a transaction would be spent on preparing and restoring the
// connection. idle never keeps the last connection of the pool. A timer returns the connection to the
// pool after the last call.
type idle struct {
	db *sql.DB

	mu        sync.Mutex
	conn      *connection // nil if none is kept
	underLoad bool        // the last call began within keepFor after the end of another one
	lastEnd   time.Time   // the time when a call ended last
}

// take returns the kept connection, or nil.
func (i *idle) take() *connection {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.underLoad = time.Since(i.lastEnd) < keepFor
	c := i.conn
	i.conn = nil
	return c
}

// keep keeps c and returns true, or returns false.
func (i *idle) keep(c *connection) bool {
	full := isFull(i.db)
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	i.lastEnd = now
	if full || !i.underLoad || i.conn != nil {
		return false
	}
	if c.keepUntil.IsZero() {
		c.keepUntil = now.Add(keepFor)
		time.AfterFunc(keepFor, func() { i.release(c) })
	}
	if !now.Before(c.keepUntil) {
		return false
	}
	i.conn = c
	return true
}

// release releases c if no call uses it. Otherwise that call releases it, because keepFor is over.
func (i *idle) release(c *connection) {
	i.mu.Lock()
	isKept := i.conn == c
	if isKept {
		i.conn = nil
	}
	i.mu.Unlock()
	if isKept {
		c.release()
	}
}

// isFull reports whether all connections of the pool are in use.
func isFull(db *sql.DB) bool {
	pool := db.Stats()
	return pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections
}
