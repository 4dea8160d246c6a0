package memory

// Entries are looked through for the first to lapse a block at a time.
const (
	blockBits = 5
	blockSize = 1 << blockBits
)

// calendar knows, of every block of entries, an instant before which none of
// them lapses, and in which block that is least. It is exact where it matters: in
// front of an eviction, the least is put right until it is true.
//
// Most writes give a record more time, and so cost nothing here. What the
// calendar takes is half a byte for each entry.
type calendar struct {
	top    int64   // bounds[1]; 0: there are no bounds yet
	bounds []int64 // a tournament: the least of 2i and 2i+1 at i; the blocks are the second half
}

func (c *calendar) blocks() int { return len(c.bounds) / 2 }

// hasten is told that the entry lapses then.
func (c *calendar) hasten(number uint32, lapses int64) {
	block := int(number-1) >> blockBits
	for block >= c.blocks() {
		c.grow()
	}
	if lapses < c.bounds[c.blocks()+block] {
		c.set(block, lapses)
	}
}

func (c *calendar) set(block int, bound int64) {
	i := c.blocks() + block
	c.bounds[i] = bound
	for ; i > 1; i /= 2 {
		least := min(c.bounds[i], c.bounds[i^1])
		if c.bounds[i/2] == least {
			return
		}
		c.bounds[i/2] = least
	}
	c.top = c.bounds[1]
}

// first is the block where the least is.
func (c *calendar) first() (block int) {
	i := 1
	for i < c.blocks() {
		if i *= 2; c.bounds[i] != c.bounds[i/2] {
			i++
		}
	}
	return i - c.blocks()
}

func (c *calendar) grow() {
	old := c.bounds
	blocks := max(1, 2*c.blocks())
	c.bounds = make([]int64, 2*blocks)
	for i := range blocks {
		c.bounds[blocks+i] = none
	}
	copy(c.bounds[blocks:], old[len(old)/2:])
	for i := blocks - 1; i > 0; i-- {
		c.bounds[i] = min(c.bounds[2*i], c.bounds[2*i+1])
	}
	c.top = c.bounds[1]
}

// settle makes the least exact and finds the entry that lapses then, 0 if there
// is none.
func (c *calendar) settle(all *entries) (number uint32) {
	for exact := -1; ; {
		if c.top == none || c.top == untouched {
			return 0
		}
		block := c.first()
		if block == exact {
			return number
		}
		var lapses int64
		number, lapses = all.firstOf(block)
		c.set(block, lapses)
		exact = block
	}
}

// firstOf is the entry of a block that lapses first.
func (s *entries) firstOf(block int) (number uint32, lapses int64) {
	lapses = none
	start := block << blockBits
	chunk := s.chunks[start>>chunkBits]
	from := start & (chunkSize - 1)
	for i := from; i < min(from+blockSize, len(chunk)); i++ {
		if e := &chunk[i]; e.version != 0 && e.lapses < lapses {
			number, lapses = uint32(start+i-from)+1, e.lapses
		}
	}
	return number, lapses
}
