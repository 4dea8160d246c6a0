package memory

import (
	"math"

	"github.com/sluice-go/sluice/storage"
)

// inline is the longest state that lies in its entry. States of gcra, tokenbucket and
// fixedwindow fit.
const inline = 24

// entry is one record. It has no pointers, so that the garbage collector does not
// look at entries, however many there are; and it is one cache line.
type entry struct {
	name    name
	version storage.Version // 0: the entry is free
	lapses  int64
	place   uint32 // in the order; of a free entry, the next free one + 1
	size    uint32 // of the state; a state longer than inline is in long
	state   [inline]byte
}

// table holds the records of one shard. The zero table is empty. Whoever uses it
// holds the shard's lock.
type table struct {
	index   []uint32          // a power of two: entry + 1 at the name's home or at the next gap behind it; 0: a gap
	entries []entry           // those in use and free ones among them
	free    uint32            // the first free entry + 1
	order   order             // of all entries in use, by when they lapse
	long    map[uint32][]byte // states longer than inline, by entry

	evicted, lapsed int64
}

// find is the place in the index where the name is, or should be.
func (t *table) find(n name) (home int, ok bool) {
	if len(t.index) == 0 {
		return 0, false
	}
	mask := len(t.index) - 1
	for home = int(n.lo) & mask; ; home = (home + 1) & mask {
		slot := t.index[home]
		if slot == 0 {
			return home, false
		}
		if t.entries[slot-1].name == n {
			return home, true
		}
	}
}

// live is the entry of a record that has not lapsed; held is whether there is one at all.
func (t *table) live(n name, at int64) (e *entry, slot uint32, held bool) {
	home, held := t.find(n)
	if !held {
		return nil, 0, false
	}
	slot = t.index[home] - 1
	if e = &t.entries[slot]; e.lapses <= at {
		return nil, slot, true
	}
	return e, slot, true
}

// version is the version stored under a name, 0 when it is absent or has lapsed. held is
// whether the name has an entry, which putting it again would use.
func (t *table) version(n name, at int64) (v storage.Version, held bool) {
	e, _, held := t.live(n, at)
	if e == nil {
		return 0, held
	}
	return e.version, true
}

// look is the state stored under a name, nil when it is absent or has lapsed. It is the
// table's own memory.
func (t *table) look(n name, at int64) (state []byte, held bool) {
	e, slot, held := t.live(n, at)
	if e == nil {
		return nil, held
	}
	return t.stateOf(e, slot), true
}

func (t *table) stateOf(e *entry, slot uint32) []byte {
	if e.size > inline {
		return t.long[slot]
	}
	return e.state[:e.size:e.size]
}

// record is a copy of what is stored under a name.
func (t *table) record(n name, at int64) storage.Record {
	e, slot, _ := t.live(n, at)
	if e == nil {
		return storage.Record{}
	}
	return storage.Record{Version: e.version, State: append([]byte{}, t.stateOf(e, slot)...)}
}

// put stores a record, over the one that is there or in an entry of its own.
func (t *table) put(n name, version storage.Version, state []byte, lapses int64) (created bool) {
	home, held := t.find(n)
	if held {
		slot := t.index[home] - 1
		e := &t.entries[slot]
		e.version, e.lapses = version, lapses
		t.order.hasten(t.entries, e.place, lapses)
		t.setState(e, slot, state)
		return false
	}
	if t.grow() {
		home, _ = t.find(n)
	}
	slot := t.allocate()
	t.index[home] = slot + 1
	e := &t.entries[slot]
	e.name, e.version, e.lapses, e.size = n, version, lapses, 0
	t.order.add(t.entries, slot, lapses)
	t.setState(e, slot, state)
	return true
}

func (t *table) setState(e *entry, slot uint32, state []byte) {
	if len(state) > inline {
		if t.long == nil {
			t.long = make(map[uint32][]byte)
		}
		t.long[slot] = append(t.long[slot][:0], state...)
	} else {
		if e.size > inline {
			delete(t.long, slot)
		}
		copy(e.state[:], state)
	}
	e.size = uint32(min(len(state), math.MaxUint32))
}

// remove drops the record under a name, if there is one.
func (t *table) remove(n name) bool {
	home, held := t.find(n)
	if held {
		t.removeAt(home)
	}
	return held
}

// drop removes the record that is first in the order, and counts it.
func (t *table) drop(at int64) {
	e := &t.entries[t.order[0].slot]
	if e.lapses <= at {
		t.lapsed++
	} else {
		t.evicted++
	}
	home, _ := t.find(e.name)
	t.removeAt(home)
}

func (t *table) removeAt(home int) {
	slot := t.index[home] - 1
	e := &t.entries[slot]
	t.order.remove(t.entries, e.place)
	if e.size > inline {
		delete(t.long, slot)
	}
	*e = entry{place: t.free}
	t.free = slot + 1
	t.closeGap(home)
}

// closeGap moves up what was kept from its home by the index's entry at gap.
func (t *table) closeGap(gap int) {
	mask := len(t.index) - 1
	for i := (gap + 1) & mask; t.index[i] != 0; i = (i + 1) & mask {
		home := int(t.entries[t.index[i]-1].name.lo) & mask
		if (i-home)&mask >= (i-gap)&mask {
			t.index[gap] = t.index[i]
			gap = i
		}
	}
	t.index[gap] = 0
}

// allocate returns an entry that is free.
func (t *table) allocate() (slot uint32) {
	if t.free != 0 {
		slot = t.free - 1
		t.free = t.entries[slot].place
		return slot
	}
	t.entries = append(t.entries, entry{})
	return uint32(len(t.entries) - 1)
}

// grow makes the index large enough for one more name: it is at most three
// quarters full.
func (t *table) grow() bool {
	if 4*(len(t.order)+1) <= 3*len(t.index) {
		return false
	}
	t.index = make([]uint32, max(8, 2*len(t.index)))
	mask := len(t.index) - 1
	for slot := range t.entries { // none is free: the index is large enough for as many as ever were in use
		home := int(t.entries[slot].name.lo) & mask
		for t.index[home] != 0 {
			home = (home + 1) & mask
		}
		t.index[home] = uint32(slot) + 1
	}
	return true
}

// earliest is when the first record lapses, or earlier; 0 for an empty table.
func (t *table) earliest() int64 {
	if len(t.order) == 0 {
		return 0
	}
	return t.order[0].lapses
}

// settle brings the order up to date at its beginning, so that earliest is exact and drop
// takes the right record. It reports whether there is any.
func (t *table) settle() bool { return t.order.settle(t.entries) }
