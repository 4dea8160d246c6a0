package memory

import (
	"encoding/binary"
	"math/bits"
)

// long holds the states that do not fit into their entries, in cells of a few
// sizes: the powers of two from 32 bytes and the middles between them, so that at
// most a third of a cell is unused. Cells have no pointers, and those of one size
// lie together.
type long struct {
	sizes []cells // by class
}

// cells are all cells of one size. Their numbers begin with 1.
type cells struct {
	size   int
	chunks [][]byte
	used   uint32
	free   uint32 // the first of a list, whose links are in the cells
}

const cellChunk = 8192 // bytes, or one cell that is larger

// class is 0 for 32 bytes, 1 for 48, 2 for 64, 3 for 96 and so on.
func class(length int) int {
	if length <= 32 {
		return 0
	}
	log := bits.Len(uint(length - 1)) // 2^(log-1) < length <= 2^log
	if length <= 3<<(log-2) {
		return 2*(log-6) + 1
	}
	return 2 * (log - 5)
}

func classSize(class int) int { return (32 + class%2*16) << (class / 2) }

func (l *long) class(i int) *cells {
	for len(l.sizes) <= i {
		l.sizes = append(l.sizes, cells{size: classSize(len(l.sizes))})
	}
	return &l.sizes[i]
}

func (c *cells) perChunk() uint32 { return uint32(max(1, cellChunk/c.size)) }

func (c *cells) at(number uint32) []byte {
	i := number - 1
	from := int(i%c.perChunk()) * c.size
	return c.chunks[i/c.perChunk()][from : from+c.size]
}

func (c *cells) allocate() (number uint32) {
	if number = c.free; number != 0 {
		c.free = binary.NativeEndian.Uint32(c.at(number))
		return number
	}
	if c.used == uint32(len(c.chunks))*c.perChunk() {
		c.chunks = append(c.chunks, make([]byte, int(c.perChunk())*c.size))
	}
	c.used++
	return c.used
}

func (c *cells) release(number uint32) {
	binary.NativeEndian.PutUint32(c.at(number), c.free)
	c.free = number
}

// cellOf reads which cell a spilled entry's state is in.
func cellOf(e *entry) (number uint32, length int) {
	return binary.NativeEndian.Uint32(e.state[:]), int(binary.NativeEndian.Uint64(e.state[8:]))
}

// state is the state of a spilled entry.
func (l *long) state(e *entry) []byte {
	number, length := cellOf(e)
	return l.sizes[class(length)].at(number)[:length:length]
}

// put makes an entry spilled that is not.
func (l *long) put(e *entry, state []byte) {
	c := l.class(class(len(state)))
	number := c.allocate()
	copy(c.at(number), state)
	e.size = spilled
	binary.NativeEndian.PutUint32(e.state[:], number)
	binary.NativeEndian.PutUint64(e.state[8:], uint64(len(state)))
}

// replace changes the state of a spilled entry to one that is long, too.
func (l *long) replace(e *entry, state []byte) {
	number, length := cellOf(e)
	if class(length) != class(len(state)) {
		l.drop(e)
		l.put(e, state)
		return
	}
	copy(l.sizes[class(length)].at(number), state)
	binary.NativeEndian.PutUint64(e.state[8:], uint64(len(state)))
}

// drop lets go of the state of a spilled entry.
func (l *long) drop(e *entry) {
	number, length := cellOf(e)
	l.sizes[class(length)].release(number)
	e.size = 0
}
