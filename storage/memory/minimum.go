package memory

import "slices"

// A search for a minimum compares the entries of one block at a time.
const (
	blockBits = 5
	blockSize = 1 << blockBits
)

// minimum finds the entry with the lowest measure. It keeps a lower bound for each block of entries, and a tournament tree of
// these bounds. A search makes the lowest bound exact. Most writes raise the measure of an entry, and the bound stays valid.
// A minimum takes half a byte for each entry.
type minimum struct {
	least  int64   // bounds[1]; unwritten if there are no bounds
	bounds []int64 // bounds[i] is the lesser of bounds[2i] and bounds[2i+1]; the second half are the blocks
}

// measure returns the number that a minimum compares. It returns none for an entry to ignore.
type measure func(e *entry) int64

func (m *minimum) blocks() int { return len(m.bounds) / 2 }

// lower records that the measure of an entry is now as low as to.
func (m *minimum) lower(number uint32, to int64) {
	block := int(number-1) >> blockBits
	for block >= m.blocks() {
		m.grow()
	}
	if to < m.bounds[m.blocks()+block] {
		m.set(block, to)
	}
}

// set sets the bound of a block.
func (m *minimum) set(block int, bound int64) {
	i := m.blocks() + block
	m.bounds[i] = bound
	for ; i > 1; i /= 2 {
		least := min(m.bounds[i], m.bounds[i^1])
		if m.bounds[i/2] == least {
			return
		}
		m.bounds[i/2] = least
	}
	m.least = m.bounds[1]
}

// leastBlock returns the block with the lowest bound.
func (m *minimum) leastBlock() int {
	i := 1
	for i < m.blocks() {
		if i *= 2; m.bounds[i] != m.bounds[i/2] {
			i++
		}
	}
	return i - m.blocks()
}

// grow doubles the number of blocks.
func (m *minimum) grow() {
	old := m.bounds[m.blocks():]
	m.bounds = slices.Repeat([]int64{none}, 2*max(1, 2*len(old)))
	for block, bound := range old {
		m.set(block, bound)
	}
}

// find returns the entry with the lowest measure and that measure. It returns 0 and none if there is no
// entry.
func (m *minimum) find(all *entries, by measure) (number uint32, value int64) {
	value = none
	for exact := -1; m.least != unwritten; {
		block := m.leastBlock()
		if block == exact {
			break
		}
		number, value = all.leastOfBlock(block, by)
		m.set(block, value)
		exact = block
	}
	return number, value
}

// leastOfBlock returns the entry of a block with the lowest measure.
func (s *entries) leastOfBlock(block int, by measure) (number uint32, value int64) {
	first, value := uint32(block<<blockBits)+1, none
	for n := first; n <= min(first+blockSize-1, s.highest); n++ {
		if e := s.at(n); e.version != 0 {
			if v := by(e); v < value {
				number, value = n, v
			}
		}
	}
	return number, value
}
