package sqlite

import (
	"database/sql"
	"sync"
	"time"
)

// keepFor is how long the store keeps a connection, at most. A call under load takes some tens
// of microseconds, so hundreds of calls share one.
const keepFor = 10 * time.Millisecond

// idle keeps the connection of a call for the next one, if they follow each other within
// keepFor. Otherwise a quarter of the time of a transaction goes into making the connection
// ready and making it as it was. It never keeps the last connection of the pool. A timer gives
// the connection back when no more calls follow.
type idle struct {
	db *sql.DB

	mu     sync.Mutex
	conn   *connection
	loaded bool      // the call that began last followed another within keepFor
	ended  time.Time // when the call that ended last did
}

// take returns the connection that was kept, or nil.
func (i *idle) take() *connection {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.loaded = time.Since(i.ended) < keepFor
	c := i.conn
	i.conn = nil
	return c
}

// keep reports whether it keeps c.
func (i *idle) keep(c *connection) bool {
	full := isFull(i.db)
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	i.ended = now
	if full || !i.loaded || i.conn != nil {
		return false
	}
	if c.due.IsZero() {
		c.due = now.Add(keepFor)
		time.AfterFunc(keepFor, func() { i.release(c) })
	}
	if !now.Before(c.due) {
		return false
	}
	i.conn = c
	return true
}

// release gives c back if no call uses it. Otherwise that call does, because c is due.
func (i *idle) release(c *connection) {
	i.mu.Lock()
	kept := i.conn == c
	if kept {
		i.conn = nil
	}
	i.mu.Unlock()
	if kept {
		c.giveBack()
	}
}

// isFull reports whether others may be waiting for a connection.
func isFull(db *sql.DB) bool {
	pool := db.Stats()
	return pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections
}
