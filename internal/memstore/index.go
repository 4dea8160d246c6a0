package memstore

import "math/bits"

// index finds the numbers of entries by hash. It is a hash table with open addressing and linear
// probing. The lower bits of a slot are the number of an entry. The upper bits are bits of the hash,
// so that a search seldom reads the entry of another hash.
type index struct {
	slots []uint32 // 0: an empty slot
	mask  uint32   // of the bits that hold a number
}

// nextIndex returns an empty index of the next size. The sizes are 10 and 15 times the powers of two.
func nextIndex(size int) index {
	switch {
	case size == 0:
		size = 10
	case size%15 == 0:
		size = size / 15 * 20
	default:
		size = size / 10 * 15
	}
	return index{make([]uint32, size), 1<<bits.Len(uint(size)) - 1}
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

func (x *index) set(slot int, h hash, number uint32) { x.slots[slot] = h.lo&^x.mask | number }

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
