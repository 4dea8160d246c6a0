package memstore

import "github.com/sluice-go/sluice/storage"

// table holds the records of one shard. The zero table is empty. The lock of the shard guards it.
type table struct {
	lastVersion storage.Version // of nextVersion; the first field, because of the cache lines of shard
	index       index
	entries     entries
	byExpiry    minimum // of all entries
	byRank      minimum // of the protected entries
	growth      indexGrowth
	long        longStates

	protected int    // the number of protected entries
	hand      uint32 // the entry that secondChance has checked last

	evicted, expired int64
}

// find returns the number of the entry of h, which may have expired. It returns 0 if there is none.
func (t *table) find(h hash) (number uint32) {
	if _, number = t.index.find(h, &t.entries); number == 0 && t.growth.isActive() {
		_, number = t.growth.old.find(h, &t.entries)
	}
	return number
}

// findLive returns the entry of h. It returns nil if there is none or if it has expired.
func (t *table) findLive(h hash, at int64) *entry {
	if number := t.find(h); number != 0 {
		if e := t.entries.at(number); e.expires > at {
			return e
		}
	}
	return nil
}

// version returns the version of the live record of h, or 0.
func (t *table) version(h hash, at int64) storage.Version {
	if e := t.findLive(h, at); e != nil {
		return e.version
	}
	return 0
}

// state returns the state of the live record of h, or nil. The state is memory of the table.
func (t *table) state(h hash, at int64) []byte {
	if e := t.findLive(h, at); e != nil {
		return t.stateOf(e)
	}
	return nil
}

func (t *table) stateOf(e *entry) []byte {
	if e.size == longState {
		return t.long.state(e)
	}
	return e.state[:e.size:e.size]
}

// record returns a copy of the live record of h, or the zero Record.
func (t *table) record(h hash, at int64) storage.Record {
	if e := t.findLive(h, at); e != nil {
		return storage.Record{Version: e.version, State: append([]byte{}, t.stateOf(e)...)}
	}
	return storage.Record{}
}

// properties are what a write stores besides the state.
type properties struct {
	version  storage.Version
	expires  int64
	priority storage.Priority
}

// put creates or replaces the record of h.
func (t *table) put(h hash, state []byte, p properties) {
	if number := t.find(h); number != 0 {
		t.write(number, t.entries.at(number), state, p)
		return
	}
	number, e := t.create(h)
	t.write(number, e, state, p)
}

// write replaces the record of an entry.
func (t *table) write(number uint32, e *entry, state []byte, p properties) {
	if p.expires < e.expires {
		t.byExpiry.lower(number, p.expires)
	}
	t.setRank(number, e, p)
	e.version = p.version
	if len(state) > maxInline {
		t.long.put(e, state)
		return
	}
	if e.size == longState {
		t.long.free(e)
	}
	if len(state) > 0 && &state[0] != &e.state[0] { // a state from Cell.Room is in its place already
		copy(e.state[:], state)
	}
	e.size = uint8(len(state))
}

// setRank sets the mark and the expiry of an entry.
func (t *table) setRank(number uint32, e *entry, p properties) {
	m := mark(p.priority)
	if e.version != 0 {
		m |= rewritten
	}
	if !e.mark.isProtected() && !m.isProtected() {
		e.mark, e.expires = m, p.expires
		return
	}
	before := e.rank()
	t.protected += boolToInt(m.isProtected()) - boolToInt(e.mark.isProtected())
	e.mark, e.expires = m, p.expires
	if now := e.rank(); now < before {
		t.byRank.lower(number, now)
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// create creates an entry for h, which must have none. The version of the entry is 0 until write.
func (t *table) create(h hash) (number uint32, e *entry) {
	t.growIndex()
	slot, _ := t.index.find(h, &t.entries)
	number, e = t.entries.allocate()
	t.index.set(slot, h, number)
	*e = entry{hi: h.hi, lo: h.lo, tail: h.tail, expires: none}
	return number, e
}

// remove removes the record of h. It returns false if there is none.
func (t *table) remove(h hash) bool {
	slot, number := t.index.find(h, &t.entries)
	if number != 0 {
		t.index.remove(slot, &t.entries)
	} else if number = t.find(h); number == 0 {
		return false
	}
	e := t.entries.at(number)
	if e.size == longState {
		t.long.free(e)
	}
	t.protected -= boolToInt(e.mark.isProtected())
	t.entries.free(number)
	return true
}

// removeAndCount removes an entry and counts it for Stats.
func (t *table) removeAndCount(number uint32, at int64) {
	e := t.entries.at(number)
	if e.expires <= at {
		t.expired++
	} else {
		t.evicted++
	}
	t.remove(e.hash())
}

// firstToExpire returns the entry that expires first and its expiry. It returns 0 and none if the
// table is empty.
func (t *table) firstToExpire() (number uint32, expires int64) {
	return t.byExpiry.find(&t.entries, (*entry).expiry, 0)
}

// lowestRank returns the protected entry with the lowest rank, except the entry of keep. It returns 0
// and none if there is none.
func (t *table) lowestRank(keep hash) (number uint32, rank int64) {
	return t.byRank.find(&t.entries, (*entry).rank, t.find(keep))
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

// freeIfEmpty frees the memory of a table without entries.
func (t *table) freeIfEmpty() {
	if t.entries.count == 0 {
		*t = table{lastVersion: t.lastVersion, evicted: t.evicted, expired: t.expired}
	}
}

// nextVersion returns a new version for a write in place. Versions only need to differ. The first
// one is random, and they repeat after 2^64 writes.
func (t *table) nextVersion() storage.Version {
	if t.lastVersion == 0 {
		t.lastVersion = storage.NewVersion()
	}
	const odd = 0x9e3779b97f4a7c15
	if t.lastVersion += odd; t.lastVersion == 0 {
		t.lastVersion = odd
	}
	return t.lastVersion
}
