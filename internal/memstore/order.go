package memstore

// Entries are searched for the least one a block at a time.
const (
	blockBits = 5
	blockSize = 1 << blockBits
)

// order finds the entry that is least by some measure. It keeps a lower bound of the
// measure for each block of entries, and a tournament of these bounds. The least
// bound is made exact before it is used.
//
// Most writes raise the measure of an entry, and so cost nothing here. An order
// takes half a byte for each entry.
type order struct {
	top    int64   // bounds[1]; untouched: there are no bounds yet
	bounds []int64 // a tournament: the lesser of 2i and 2i+1 at i; the blocks are the second half
}

// measure is what an order goes by; none for entries that it must not find.
type measure func(e *entry) int64

func (o *order) blocks() int { return len(o.bounds) / 2 }

// lower says that the measure of an entry is now as low as this.
func (o *order) lower(number uint32, to int64) {
	block := int(number-1) >> blockBits
	for block >= o.blocks() {
		o.grow()
	}
	if to < o.bounds[o.blocks()+block] {
		o.set(block, to)
	}
}

func (o *order) set(block int, bound int64) {
	i := o.blocks() + block
	o.bounds[i] = bound
	for ; i > 1; i /= 2 {
		least := min(o.bounds[i], o.bounds[i^1])
		if o.bounds[i/2] == least {
			return
		}
		o.bounds[i/2] = least
	}
	o.top = o.bounds[1]
}

// first is the block with the least bound.
func (o *order) first() (block int) {
	i := 1
	for i < o.blocks() {
		if i *= 2; o.bounds[i] != o.bounds[i/2] {
			i++
		}
	}
	return i - o.blocks()
}

func (o *order) grow() {
	old := o.bounds
	blocks := max(1, 2*o.blocks())
	o.bounds = make([]int64, 2*blocks)
	for i := range blocks {
		o.bounds[blocks+i] = none
	}
	copy(o.bounds[blocks:], old[len(old)/2:])
	for i := blocks - 1; i > 0; i-- {
		o.bounds[i] = min(o.bounds[2*i], o.bounds[2*i+1])
	}
	o.top = o.bounds[1]
}

// least makes the least bound exact and finds the entry that has it; 0 and none if there is
// no such entry.
func (o *order) least(all *entries, by measure) (number uint32, value int64) {
	for exact := -1; ; {
		if o.top == none || o.top == untouched {
			return 0, none
		}
		block := o.first()
		if block == exact {
			return number, o.top
		}
		number, value = all.leastOf(block, by)
		o.set(block, value)
		exact = block
	}
}

// leastBut is least among all entries but one.
func (o *order) leastBut(all *entries, by measure, but uint32) (number uint32, value int64) {
	if number, value = o.least(all, by); number != but || number == 0 {
		return number, value
	}
	number, value = o.least(all, func(e *entry) int64 {
		if e == all.at(but) {
			return none
		}
		return by(e)
	})
	o.lower(but, by(all.at(but)))
	return number, value
}

// leastOf is the least entry of a block.
func (s *entries) leastOf(block int, by measure) (number uint32, value int64) {
	value = none
	start := block << blockBits
	chunk := s.chunks[start>>chunkBits]
	from := start & (chunkSize - 1)
	for i := from; i < min(from+blockSize, len(chunk)); i++ {
		if e := &chunk[i]; e.version != 0 {
			if v := by(e); v < value {
				number, value = uint32(start+i-from)+1, v
			}
		}
	}
	return number, value
}
