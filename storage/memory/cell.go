package memory

import "time"

// Cell is one record that is locked, as [Hold] is several. It is the way of most
// decisions, and of nothing that they can do without.
type Cell struct {
	store  *Store
	shard  *shard
	at     int64
	name   Name
	number uint32
	room   int
}

// Lock locks the record of a name. Unless it returns an error, which is
// [storage.ErrNotApplied], Unlock must follow, even if the caller panics.
func (s *Store) Lock(now time.Time, n Name) (c Cell, err error) {
	c = Cell{store: s, shard: &s.shards[n.shard()], at: instant(now), name: n}
	c.number, c.room, err = s.acquireOne(n, c.at)
	return c, err
}

// State is the record's state, nil when it is absent. It may be read until the
// record is changed, and not modified.
func (c *Cell) State() []byte { return c.shard.table.state(c.number, c.at) }

// Buffer is empty, to be appended to, and the caller's until Unlock. What he made
// of it is handed back with Keep, so that it need not grow again.
func (c *Cell) Buffer() []byte { return c.shard.scratch.buffer[:0] }

// Keep keeps what became of Buffer.
func (c *Cell) Keep(buffer []byte) { c.shard.scratch.buffer = buffer }

// Put stores a copy of state, for as long as [storage.Swap.TTL] says, which must
// not be negative. It ends what may be done with the record.
func (c *Cell) Put(state []byte, ttl time.Duration) {
	t := &c.shard.table
	if t.put(c.name, c.number, t.nextVersion(), state, lapse(c.at, ttl)) {
		c.room = 0
	}
}

// Unlock unlocks the record.
func (c *Cell) Unlock() {
	if c.room != 0 {
		c.store.keys.Add(-1)
	}
	c.store.unlockOne(c.name.shard())
}
