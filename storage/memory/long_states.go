package memory

import "encoding/binary"

// longStates holds the states that do not fit into their entries, each in a piece of memory. The sizes of pieces are 32, 48,
// 64, 96, 128 and so on, so at most a third of a piece is unused. Pieces of one size are allocated in chunks without
// pointers.
type longStates struct {
	classes []pieces // by size
}

// pieces holds all pieces of one size. The numbers of pieces start with 1.
type pieces struct {
	size      int
	chunks    [][]byte
	highest   uint32 // the highest number that was ever allocated
	firstFree uint32 // the head of the list of free pieces; a free piece begins with the next number
}

const pieceChunk = 8192 // bytes; a larger piece has a chunk of its own

func sizeOfClass(class int) int { return (32 + class%2*16) << (class / 2) }

// sizeClass returns the index in longStates.classes for a length.
func sizeClass(length int) (class int) {
	for sizeOfClass(class) < length {
		class++
	}
	return class
}

func (p *pieces) perChunk() uint32 { return uint32(max(1, pieceChunk/p.size)) }

func (p *pieces) at(number uint32) []byte {
	i := number - 1
	from := int(i%p.perChunk()) * p.size
	return p.chunks[i/p.perChunk()][from : from+p.size]
}

func (p *pieces) allocate() (number uint32) {
	if number = p.firstFree; number != 0 {
		p.firstFree = binary.NativeEndian.Uint32(p.at(number))
		return number
	}
	if p.highest == uint32(len(p.chunks))*p.perChunk() {
		p.chunks = append(p.chunks, make([]byte, int(p.perChunk())*p.size))
	}
	p.highest++
	return p.highest
}

// piece returns the number of the piece of an entry with a long state, and the length of the state.
func (e *entry) piece() (number uint32, length int) {
	return binary.NativeEndian.Uint32(e.state[:]), int(binary.NativeEndian.Uint64(e.state[8:]))
}

// state returns the state of an entry with a long state.
func (l *longStates) state(e *entry) []byte {
	number, length := e.piece()
	return l.classes[sizeClass(length)].at(number)[:length:length]
}

// put stores a state for an entry. The entry may have a long state already.
func (l *longStates) put(e *entry, state []byte) {
	class := sizeClass(len(state))
	for len(l.classes) <= class {
		l.classes = append(l.classes, pieces{size: sizeOfClass(len(l.classes))})
	}
	number, length := e.piece()
	if e.size != longState || sizeClass(length) != class {
		l.free(e)
		number = l.classes[class].allocate()
	}
	copy(l.classes[class].at(number), state)
	e.size = longState
	binary.NativeEndian.PutUint32(e.state[:], number)
	binary.NativeEndian.PutUint64(e.state[8:], uint64(len(state)))
}

// free frees the piece of an entry if its state is long.
func (l *longStates) free(e *entry) {
	if e.size != longState {
		return
	}
	number, length := e.piece()
	p := &l.classes[sizeClass(length)]
	binary.NativeEndian.PutUint32(p.at(number), p.firstFree)
	p.firstFree = number
}
