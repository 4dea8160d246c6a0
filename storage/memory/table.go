package memory

import "github.com/sluice-go/sluice/storage"

// table holds the records of one shard. Without records it is zero but for counters.
// The lock of the shard guards it.
type table struct {
	index     index
	entries   entries
	byExpiry  minimum // of all entries
	byRank    minimum // of the protected entries
	long      longStates
	counters  *counters
	protected int    // the number of protected entries
	hand      uint32 // the entry that secondChance has checked last
}

// find returns the entry of h, which may have expired, and its number. It returns 0 and nil if there is
// none.
func (t *table) find(h hash) (number uint32, e *entry) {
	if _, number = t.index.find(h, &t.entries); number != 0 {
		e = t.entries.at(number)
	}
	return number, e
}

// state returns the state of a live entry, or nil. e may be nil. The state is memory of the table.
func (t *table) state(e *entry, at int64) []byte {
	switch {
	case e == nil || e.expires <= at:
		return nil
	case e.size == longState:
		return t.long.state(e)
	}
	return e.state[:e.size:e.size]
}

// read sets record to that of a live entry, or to the zero Record. The state is memory of the table. e may be nil.
func (t *table) read(record *storage.Record, e *entry, at int64) {
	*record = storage.Record{}
	if state := t.state(e, at); state != nil {
		record.Version, record.State, record.TTL = e.version, state, e.ttl(at)
	}
}

// copyOf returns a copy of the live record of h, or the zero Record.
func (t *table) copyOf(h hash, at int64) storage.Record {
	var r storage.Record
	_, e := t.find(h)
	t.read(&r, e, at)
	if r.Version != 0 {
		r.State = append([]byte{}, r.State...)
	}
	return r
}

// properties are what a write stores besides the state.
type properties struct {
	version  storage.Version
	expires  int64
	priority storage.Priority
}

// put creates or replaces the record of h.
func (t *table) put(h hash, state []byte, p properties) {
	number, _ := t.find(h)
	t.putAt(h, number, state, p)
}

// putAt is put for an h whose entry has this number, or for an h without an entry if number is 0.
func (t *table) putAt(h hash, number uint32, state []byte, p properties) {
	var e *entry
	if number == 0 {
		number, e = t.create(h)
	} else {
		e = t.entries.at(number)
	}
	if p.expires < e.expires {
		t.byExpiry.lower(number, p.expires)
	}
	t.setRank(number, e, p)
	e.version = p.version
	if len(state) > maxInline {
		t.long.put(e, state)
		return
	}
	t.long.free(e)
	e.size = uint8(copy(e.state[:], state))
}

// setRank sets the mark and the expiry of an entry.
func (t *table) setRank(number uint32, e *entry, p properties) {
	before, m := e.rank(), mark(p.priority)
	if e.version != 0 {
		m |= rewritten
	}
	e.mark, e.expires = m, p.expires
	now := e.rank()
	t.countProtected(before, now)
	if now < before {
		t.byRank.lower(number, now)
	}
}

// countProtected counts an entry whose rank changes.
func (t *table) countProtected(before, now int64) {
	change := 0
	if before != none {
		change--
	}
	if now != none {
		change++
	}
	if change != 0 {
		t.protected += change
		t.counters.protected.Add(int64(change))
	}
}

// create creates an entry for h, which must have none. The version of the entry is 0 until putAt writes the record.
func (t *table) create(h hash) (number uint32, e *entry) {
	if t.index.isFull(t.entries.count + 1) {
		size := len(t.index.slots)
		t.index = newIndex(max(firstIndex, size+size/2), &t.entries)
	}
	number, e = t.entries.allocate()
	*e = entry{hi: h.hi, lo: h.lo, tail: h.tail, expires: none}
	t.index.add(h, number, &t.entries)
	t.counters.keys.Add(1)
	return number, e
}

// remove removes the record of h, if there is one.
func (t *table) remove(h hash) {
	slot, number := t.index.find(h, &t.entries)
	if number == 0 {
		return
	}
	t.index.remove(slot, &t.entries)
	e := t.entries.at(number)
	t.long.free(e)
	t.countProtected(e.rank(), none)
	t.entries.free(number)
	t.counters.keys.Add(-1)
}

// removeAndCount removes an entry and counts it for Stats.
func (t *table) removeAndCount(number uint32, at int64) {
	e := t.entries.at(number)
	if e.expires <= at {
		t.counters.expired.Add(1)
	} else {
		t.counters.evicted.Add(1)
	}
	t.remove(e.hash())
}

// firstToExpire returns the entry that expires first and its expiry. It returns 0 and none if the
// table is empty.
func (t *table) firstToExpire() (number uint32, expires int64) {
	return t.byExpiry.find(&t.entries, func(e *entry) int64 { return e.expires })
}

// lowestRank returns the protected entry with the lowest rank, except the entry of keep. It returns 0
// and none if there is none.
func (t *table) lowestRank(keep hash) (number uint32, rank int64) {
	kept, e := t.find(keep)
	if e == nil || e.rank() == none {
		return t.byRank.find(&t.entries, (*entry).rank)
	}
	number, rank = t.byRank.find(&t.entries, func(other *entry) int64 {
		if other == e {
			return none
		}
		return other.rank()
	})
	t.byRank.lower(kept, e.rank()) // its block may have a bound without it
	return number, rank
}

// secondChance returns an unprotected entry other than that of keep, or 0. It is the clock algorithm:
// a hand visits all entries in turn, and skips an entry that was rewritten since the last visit.
func (t *table) secondChance(keep hash) (number uint32) {
	if t.protected == t.entries.count {
		return 0
	}
	for range 2 * t.entries.highest {
		t.hand = t.hand%t.entries.highest + 1
		switch e := t.entries.at(t.hand); {
		case e.version == 0 || e.mark.isProtected() || e.has(keep):
		case e.mark&rewritten != 0:
			e.mark &^= rewritten
		default:
			return t.hand
		}
	}
	return 0
}

// clear removes all records, frees their memory and returns their number.
func (t *table) clear() (removed int) {
	removed = t.entries.count
	t.counters.keys.Add(-int64(removed))
	t.counters.protected.Add(-int64(t.protected))
	*t = table{counters: t.counters}
	return removed
}
