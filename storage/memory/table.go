package memory

import "github.com/sluice-go/sluice/storage"

// table holds the records of one shard. The zero table is empty. Whoever uses it
// holds the shard's lock.
type table struct {
	latest   storage.Version // of a write in place; first, see shard
	index    index
	entries  entries
	calendar calendar
	growth   growth
	long     long

	evicted, lapsed int64
}

// find is the number of the entry under a name; 0 if there is none, be it live or
// lapsed.
func (t *table) find(n Name) (number uint32) {
	if _, number = t.index.find(n, &t.entries); number == 0 && t.growth.underWay() {
		_, number = t.growth.old.find(n, &t.entries)
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
// held is whether the name has an entry, which putting it again would use.
func (t *table) version(n Name, at int64) (v storage.Version, held bool) {
	number := t.find(n)
	if e := t.live(number, at); e != nil {
		v = e.version
	}
	return v, number != 0
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
func (t *table) record(n Name, at int64) storage.Record {
	e := t.live(t.find(n), at)
	if e == nil {
		return storage.Record{}
	}
	return storage.Record{Version: e.version, State: append([]byte{}, t.stateOf(e)...)}
}

// put stores a record under a name whose entry has that number, or has none yet.
func (t *table) put(n Name, number uint32, version storage.Version, state []byte, lapses int64) (created bool) {
	var e *entry
	if created = number == 0; created {
		number, e = t.create(n)
	} else {
		e = t.entries.at(number)
	}
	t.write(number, e, version, state, lapses)
	return created
}

// write stores a record over the one that an entry has.
func (t *table) write(number uint32, e *entry, version storage.Version, state []byte, lapses int64) {
	if lapses < e.lapses {
		t.calendar.hasten(number, lapses)
	}
	e.version, e.lapses = version, lapses
	if len(state) <= inline && e.size != spilled {
		if len(state) > 0 && &state[0] != &e.state[0] { // else it was written in its place
			copy(e.state[:], state)
		}
		e.size = uint8(len(state))
		return
	}
	t.spill(e, state)
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
func (t *table) create(n Name) (number uint32, e *entry) {
	t.grow()
	gap, _ := t.index.find(n, &t.entries)
	number, e = t.entries.allocate()
	t.index.set(gap, n, number)
	*e = entry{hi: n.hi, lo: n.lo, tail: n.tail, lapses: none}
	return number, e
}

// remove drops the record under a name, if there is one.
func (t *table) remove(n Name) bool {
	i, number := t.index.find(n, &t.entries)
	if number != 0 {
		t.index.closeGap(i, &t.entries)
	} else if number = t.find(n); number == 0 {
		return false
	}
	if e := t.entries.at(number); e.size == spilled {
		t.long.drop(e)
	}
	t.entries.release(number)
	return true
}

// first is the entry that lapses first, 0 for an empty table, and when it does.
func (t *table) first() (number uint32, lapses int64) {
	number = t.calendar.settle(&t.entries)
	return number, t.calendar.top
}

// drop removes an entry, and counts it.
func (t *table) drop(number uint32, at int64) {
	e := t.entries.at(number)
	if e.lapses <= at {
		t.lapsed++
	} else {
		t.evicted++
	}
	t.remove(e.name())
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
