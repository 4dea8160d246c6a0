package memstore

import (
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Cell is one locked record. A limiter with one rule decides with a Cell, because a Cell allocates
// nothing. A Cell must not be copied while it is locked.
type Cell struct {
	shard   *shard
	entry   *entry // nil if the store has no record
	number  uint32 // of entry
	created bool
	at      int64
	name    Name
}

// Lock locks the record of n at the [Instant] at. The caller must call Unlock, even if it panics.
func (c *Cell) Lock(at int64, n Name) {
	c.shard, c.at, c.name, c.created = n.shard(), at, n, false
	c.shard.mu.Lock()
	c.number, c.entry = c.shard.table.find(n.hash)
}

// State returns the state of the record. It is nil if the record is absent. The caller may read it
// until the next Put or Unlock, and must not modify it.
func (c *Cell) State() []byte { return c.shard.table.state(c.entry, c.at) }

// Buffer returns an empty slice. The caller may append to it until Unlock. Pass the result to Keep,
// so that the slice need not grow again.
func (c *Cell) Buffer() []byte { return c.shard.scratch.buffer[:0] }

// Keep stores the slice from Buffer for the next caller.
func (c *Cell) Keep(buffer []byte) { c.shard.scratch.buffer = buffer }

// Put stores a copy of state. ttl has the meaning of [storage.Swap.TTL] and must not be negative.
func (c *Cell) Put(state []byte, ttl time.Duration, p storage.Priority) {
	t := &c.shard.table
	if c.entry == nil {
		c.number, c.entry = t.create(c.name.hash)
		c.created = true
	}
	t.write(c.number, c.entry, state, properties{t.nextVersion(), expiry(c.at, ttl), p})
}

// Unlock unlocks the record.
func (c *Cell) Unlock() {
	c.shard.unlock()
	if c.created {
		c.name.partition.evict(c.name.hash, c.at)
	}
}
