package memstore

import (
	"encoding/binary"
	"math/bits"
)

// long holds the states that do not fit into their entries, in pieces of a few
// sizes: the powers of two from 32 bytes and the middles between them, so that at
// most a third of a piece is unused. Pieces have no pointers, and those of one size
// lie together.
type long struct {
	sizes []pieces // by class
}

// pieces are all pieces of one size. Their numbers begin with 1.
type pieces struct {
	size   int
	chunks [][]byte
	used   uint32
	free   uint32 // the first of a list, whose links are in the pieces
}

const pieceChunk = 8192 // bytes, or one piece that is larger

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

func (l *long) ofClass(class int) *pieces {
	for len(l.sizes) <= class {
		l.sizes = append(l.sizes, pieces{size: classSize(len(l.sizes))})
	}
	return &l.sizes[class]
}

func (p *pieces) perChunk() uint32 { return uint32(max(1, pieceChunk/p.size)) }

func (p *pieces) at(number uint32) []byte {
	i := number - 1
	from := int(i%p.perChunk()) * p.size
	return p.chunks[i/p.perChunk()][from : from+p.size]
}

func (p *pieces) allocate() (number uint32) {
	if number = p.free; number != 0 {
		p.free = binary.NativeEndian.Uint32(p.at(number))
		return number
	}
	if p.used == uint32(len(p.chunks))*p.perChunk() {
		p.chunks = append(p.chunks, make([]byte, int(p.perChunk())*p.size))
	}
	p.used++
	return p.used
}

func (p *pieces) release(number uint32) {
	binary.NativeEndian.PutUint32(p.at(number), p.free)
	p.free = number
}

// pieceOf reads which piece a spilled entry's state is in.
func pieceOf(e *entry) (number uint32, length int) {
	return binary.NativeEndian.Uint32(e.state[:]), int(binary.NativeEndian.Uint64(e.state[8:]))
}

// state is the state of a spilled entry.
func (l *long) state(e *entry) []byte {
	number, length := pieceOf(e)
	return l.sizes[class(length)].at(number)[:length:length]
}

// put makes an entry spilled that is not.
func (l *long) put(e *entry, state []byte) {
	p := l.ofClass(class(len(state)))
	number := p.allocate()
	copy(p.at(number), state)
	e.size = spilled
	binary.NativeEndian.PutUint32(e.state[:], number)
	binary.NativeEndian.PutUint64(e.state[8:], uint64(len(state)))
}

// replace changes the state of a spilled entry to one that is long, too.
func (l *long) replace(e *entry, state []byte) {
	number, length := pieceOf(e)
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
	number, length := pieceOf(e)
	l.sizes[class(length)].release(number)
	e.size = 0
}
