package memstore

import "github.com/sluice-go/sluice/storage"

// table holds the records of one shard. The zero table is empty. Whoever uses it
// holds the shard's lock.
type table struct {
	latest  storage.Version // of a write in place; first, see shard
	index   index
	entries entries
	lapses  order // by when they lapse
	worths  order // of the protected ones, by worth
	growth  growth
	long    long

	protected int    // how many entries are
	hand      uint32 // the entry that secondChance looked at last

	evicted, lapsed int64
}

// find is the number of the entry under a name; 0 if there is none, be it live or
// lapsed.
func (t *table) find(h hash) (number uint32) {
	if _, number = t.index.find(h, &t.entries); number == 0 && t.growth.underWay() {
		_, number = t.growth.old.find(h, &t.entries)
	}
	return number
}

// live is the entry of that number, nil for 0 or when it has lapsed.
func (t *table) live(number uint32, at int64) *entry {
	if number == 0 {
		return nil
	}
	if e := t.entries.at(number); e.lapses > at {
		return e
	}
	return nil
}

// version is what is stored under a name, 0 when it is absent or has lapsed.
func (t *table) version(h hash, at int64) storage.Version {
	if e := t.live(t.find(h), at); e != nil {
		return e.version
	}
	return 0
}

// state is that of an entry, nil for none and when it has lapsed. It is the
// table's own memory.
func (t *table) state(number uint32, at int64) []byte {
	e := t.live(number, at)
	if e == nil {
		return nil
	}
	return t.stateOf(e)
}

func (t *table) stateOf(e *entry) []byte {
	if e.size == spilled {
		return t.long.state(e)
	}
	return e.state[:e.size:e.size]
}

// record is a copy of what is stored under a name.
func (t *table) record(h hash, at int64) storage.Record {
	e := t.live(t.find(h), at)
	if e == nil {
		return storage.Record{}
	}
	return storage.Record{Version: e.version, State: append([]byte{}, t.stateOf(e)...)}
}

// content is what a write gives a record, besides its state.
type content struct {
	version  storage.Version
	lapses   int64
	priority storage.Priority
}

// put stores a record under a name whose entry has that number, or has none yet.
func (t *table) put(h hash, number uint32, state []byte, c content) (created bool) {
	var e *entry
	if created = number == 0; created {
		number, e = t.create(h)
	} else {
		e = t.entries.at(number)
	}
	t.write(number, e, state, c)
	return created
}

// write stores a record over the one that an entry has.
func (t *table) write(number uint32, e *entry, state []byte, c content) {
	if c.lapses < e.lapses {
		t.lapses.lower(number, c.lapses)
	}
	t.remark(number, e, c)
	e.version = c.version
	if len(state) <= inline && e.size != spilled {
		if len(state) > 0 && &state[0] != &e.state[0] { // else it was written in its place
			copy(e.state[:], state)
		}
		e.size = uint8(len(state))
		return
	}
	t.spill(e, state)
}

// remark changes what eviction goes by.
func (t *table) remark(number uint32, e *entry, c content) {
	m := mark(c.priority)
	if e.version != 0 {
		m |= rewritten
	}
	if before := e.mark; !before.isProtected() && !m.isProtected() {
		e.mark, e.lapses = m, c.lapses
		return
	}
	worth := e.worth()
	t.protected += protects(m) - protects(e.mark)
	e.mark, e.lapses = m, c.lapses
	if now := e.worth(); now < worth {
		t.worths.lower(number, now)
	}
}

// protects is how many protected entries one with this mark is.
func protects(m mark) int {
	if m.isProtected() {
		return 1
	}
	return 0
}

// spill changes a state that is long, or was.
func (t *table) spill(e *entry, state []byte) {
	switch {
	case e.size != spilled:
		t.long.put(e, state)
	case len(state) > inline:
		t.long.replace(e, state)
	default:
		t.long.drop(e)
		e.size = uint8(copy(e.state[:], state))
	}
}

// create makes an entry for a name that has none. Its version is still 0.
func (t *table) create(h hash) (number uint32, e *entry) {
	t.grow()
	gap, _ := t.index.find(h, &t.entries)
	number, e = t.entries.allocate()
	t.index.set(gap, h, number)
	*e = entry{hi: h.hi, lo: h.lo, tail: h.tail, lapses: none}
	return number, e
}

// remove drops the record under a name, if there is one.
func (t *table) remove(h hash) bool {
	i, number := t.index.find(h, &t.entries)
	if number != 0 {
		t.index.closeGap(i, &t.entries)
	} else if number = t.find(h); number == 0 {
		return false
	}
	e := t.entries.at(number)
	if e.size == spilled {
		t.long.drop(e)
	}
	t.protected -= protects(e.mark)
	t.entries.release(number)
	return true
}

// firstToLapse is the entry that lapses first, 0 for an empty table, and when it does.
func (t *table) firstToLapse() (number uint32, lapses int64) {
	return t.lapses.least(&t.entries, (*entry).lapse)
}

// leastWorth is the protected entry that is worth least, but for one name; 0 and none if
// there is none.
func (t *table) leastWorth(but hash) (number uint32, worth int64) {
	return t.worths.leastBut(&t.entries, (*entry).worth, t.find(but))
}

// secondChance is the next unprotected entry that was not written again since it was last
// passed over, but for one name; 0 if there is no unprotected one. This is the clock
// algorithm: the hand passes all entries in turn.
func (t *table) secondChance(but hash) (number uint32) {
	if t.protected == t.entries.held {
		return 0
	}
	for range 2 * t.entries.used {
		t.hand = t.hand%t.entries.used + 1
		switch e := t.entries.at(t.hand); {
		case e.version == 0 || e.mark.isProtected() || e.is(but):
		case e.mark&rewritten != 0:
			e.mark &^= rewritten
		default:
			return t.hand
		}
	}
	return 0
}

// drop removes an entry, and counts it.
func (t *table) drop(number uint32, at int64) {
	e := t.entries.at(number)
	if e.lapses <= at {
		t.lapsed++
	} else {
		t.evicted++
	}
	t.remove(e.hash())
}

// reset frees the memory of a table without entries.
func (t *table) reset() {
	if t.entries.held == 0 {
		*t = table{latest: t.latest, evicted: t.evicted, lapsed: t.lapsed}
	}
}

// nextVersion is that of a write in place. Versions need only differ: these start
// at random and meet again after 2^64 writes.
func (t *table) nextVersion() storage.Version {
	if t.latest == 0 {
		t.latest = storage.NewVersion()
	}
	const odd = 0x9e3779b97f4a7c15
	if t.latest += odd; t.latest == 0 {
		t.latest = odd
	}
	return t.latest
}
