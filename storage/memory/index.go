package memory

import "math/bits"

// index finds the entries by hash. It is a hash table with open addressing and linear probing. The lower bits of a slot are
// the number of an entry. The upper bits are bits of the hash, so that a search seldom reads the entry of another hash.
type index struct {
	slots []uint32 // 0: an empty slot
	mask  uint32   // of the bits that hold a number
}

// firstIndex is the number of slots of the smallest index. Each larger one has half as many slots more.
const firstIndex = 10

// newIndex returns an index of all entries, with a number of slots. No entry is free, because an index grows only if there are more
// entries than ever before.
func newIndex(slots int, all *entries) index {
	x := index{make([]uint32, slots), 1<<bits.Len(uint(slots)) - 1}
	for number := uint32(1); number <= all.highest; number++ {
		x.add(all.at(number).hash(), number, all)
	}
	return x
}

// isFull reports whether count entries would fill more than 13/16 of the slots.
func (x *index) isFull(count int) bool { return 16*count > 13*len(x.slots) }

// home returns the first slot of a search.
func (x *index) home(h hash) int {
	return int(uint64(uint32(h.hi)) * uint64(len(x.slots)) >> 32)
}

func (x *index) after(slot int) int {
	if slot++; slot < len(x.slots) {
		return slot
	}
	return 0
}

// find returns the slot of h and the number of its entry. If h is absent, it returns the empty slot
// for h and 0.
func (x *index) find(h hash, all *entries) (slot int, number uint32) {
	if len(x.slots) == 0 {
		return 0, 0
	}
	for slot = x.home(h); ; slot = x.after(slot) {
		content := x.slots[slot]
		if content == 0 {
			return slot, 0
		}
		if (content^h.lo)&^x.mask == 0 && all.at(content&x.mask).has(h) {
			return slot, content & x.mask
		}
	}
}

// add adds an entry whose hash is absent.
func (x *index) add(h hash, number uint32, all *entries) {
	slot, _ := x.find(h, all)
	x.slots[slot] = h.lo&^x.mask | number
}

// remove empties a slot. It moves up the later slots whose search would end at the empty slot.
func (x *index) remove(gap int, all *entries) {
	for i := x.after(gap); x.slots[i] != 0; i = x.after(i) {
		home := x.home(all.at(x.slots[i] & x.mask).hash())
		if x.distance(home, i) >= x.distance(gap, i) {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = 0
}

func (x *index) distance(from, to int) int {
	if to < from {
		to += len(x.slots)
	}
	return to - from
}
