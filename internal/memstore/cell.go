package memstore

import (
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Cell is one record that is locked. A limiter with one rule decides by it, because it
// allocates nothing. It must not be copied while it is locked.
type Cell struct {
	store   *Store
	shard   *shard
	entry   *entry // nil: there is none yet
	number  uint32 // of entry
	created bool
	at      int64
	name    Name
}

// Lock locks the record of a name, at an [Instant]. Unlock must follow, even if the
// caller panics.
func (s *Store) Lock(c *Cell, at int64, n Name) {
	c.store, c.shard, c.at, c.name = s, n.shard(), max(at, earliest), n
	c.entry, c.created = nil, false
	c.shard.mu.Lock()
	if c.number = c.shard.table.find(n.hash); c.number != 0 {
		c.entry = c.shard.table.entries.at(c.number)
	}
}

// State is the record's state, nil when it is absent. It may be read until the
// record is changed, and not modified.
func (c *Cell) State() []byte {
	if c.entry == nil || c.entry.lapses <= c.at {
		return nil
	}
	return c.shard.table.stateOf(c.entry)
}

// Room is empty, for a state that is to be put. It lies where State does, so that
// what is appended to it is written over that, and Put need not copy it. A record
// that is absent has no such place, nor has one with a long state; then Room is
// otherwise.
func (c *Cell) Room(otherwise []byte) []byte {
	if c.entry == nil || c.entry.size == spilled {
		return otherwise
	}
	return c.entry.state[:0]
}

// Buffer is empty, to be appended to, and the caller's until Unlock. What became
// of it is handed back with Keep, so that it need not grow again.
func (c *Cell) Buffer() []byte { return c.shard.scratch.buffer[:0] }

// Keep takes back what became of Buffer.
func (c *Cell) Keep(buffer []byte) { c.shard.scratch.buffer = buffer }

// Put stores state, or a copy of it if it is not in Room, for as long as
// [storage.Swap.TTL] says, which must not be negative.
func (c *Cell) Put(state []byte, ttl time.Duration, p storage.Priority) {
	t := &c.shard.table
	if c.entry == nil {
		c.number, c.entry = t.create(c.name.hash)
		c.created = true
	}
	t.write(c.number, c.entry, state, content{t.nextVersion(), lapse(c.at, ttl), p})
}

// Unlock unlocks the record.
func (c *Cell) Unlock() {
	c.shard.unlock()
	if c.created {
		c.store.makeRoom(c.name, c.at)
	}
}
