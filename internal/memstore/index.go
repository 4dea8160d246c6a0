package memstore

import "math/bits"

// index finds numbers of entries by name, by open addressing with linear
// probing. A slot is 32 bits: the number in as many of the lower ones as it
// takes, and bits of the name above, so that an entry is hardly ever looked at in
// vain.
type index struct {
	slots []uint32 // 0: a gap
	mask  uint32   // of the bits that hold a number
}

// indexSizes are 10 and 15 times the powers of two: each a third or a half more
// than the one before.
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

// isFull reports whether names would be more than the slots are for: 13 of 16.
func (x *index) isFull(names int) bool { return 16*names > 13*len(x.slots) }

func (x *index) home(h hash) int {
	return int(uint64(uint32(h.hi)) * uint64(len(x.slots)) >> 32)
}

func (x *index) after(i int) int {
	if i++; i < len(x.slots) {
		return i
	}
	return 0
}

// find is where the name is in the index and the number of its entry, or the
// gap where the name would go and 0.
func (x *index) find(h hash, all *entries) (i int, number uint32) {
	if len(x.slots) == 0 {
		return 0, 0
	}
	for i = x.home(h); ; i = x.after(i) {
		slot := x.slots[i]
		if slot == 0 {
			return i, 0
		}
		if (slot^h.lo)&^x.mask == 0 && all.at(slot&x.mask).is(h) {
			return i, slot & x.mask
		}
	}
}

func (x *index) set(i int, h hash, number uint32) { x.slots[i] = h.lo&^x.mask | number }

// closeGap moves up what was kept from its home by the slot at gap.
func (x *index) closeGap(gap int, all *entries) {
	for i := x.after(gap); x.slots[i] != 0; i = x.after(i) {
		home := x.home(all.at(x.slots[i] & x.mask).hash())
		if x.distance(home, i) >= x.distance(gap, i) {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = 0
}

// distance is how far to is behind from.
func (x *index) distance(from, to int) int {
	if to < from {
		to += len(x.slots)
	}
	return to - from
}
