package memstore

import "github.com/sluice-go/sluice/storage"

// inline is the longest state that lies in its entry. States of gcra,
// tokenbucket and fixedwindow fit, under limits of up to 2^16 a day.
const inline = 25

// spilled is the size of an entry whose state is longer and lies elsewhere.
const spilled = 255

// entry is one record in 56 bytes. It has no pointers, so that the garbage
// collector does not look at entries, however many there are.
type entry struct {
	hi      uint64
	version storage.Version // 0: the entry is free
	lapses  int64
	lo      uint32 // of a free entry, the number of the next free one
	tail    uint8
	size    uint8 // of the state, or spilled
	mark    mark
	state   [inline]byte
}

// mark is what eviction goes by: a storage.Priority, and whether the record was written
// again since it was last passed over.
type mark uint8

const (
	priorityBits mark = 3
	rewritten    mark = 4
)

func (m mark) isProtected() bool { return m&priorityBits >= mark(storage.UsedHalf) }

func (e *entry) is(h hash) bool {
	return e.hi == h.hi && e.lo == h.lo && e.tail == h.tail && e.version != 0
}

func (e *entry) hash() hash { return hash{e.hi, e.lo, e.tail} }

// lapse is the measure by which records lapse.
func (e *entry) lapse() int64 { return e.lapses }

// worth is the measure by which protected records are evicted: first by priority, then by
// when they lapse. It is none for a record that is not protected.
func (e *entry) worth() int64 {
	if !e.mark.isProtected() {
		return none
	}
	return int64(e.mark&priorityBits)<<60 | e.lapses>>3
}

// Entries lie in chunks, so that more of them are had without copying those
// there are. A chunk is a whole number of blocks and exactly one of the sizes that
// the allocator has.
const (
	chunkBits = 8
	chunkSize = 1 << chunkBits
	smallest  = 8 // of the first chunk, which does grow, by copying
)

// entries are all entries of a table, by number. Numbers begin with 1, and an
// entry keeps its own.
type entries struct {
	chunks [][]entry
	used   uint32 // the greatest number in use so far
	free   uint32 // a free entry below that, the first of a list
	held   int    // entries that are not free
}

func (s *entries) at(number uint32) *entry {
	i := number - 1
	return &s.chunks[i>>chunkBits][i&(chunkSize-1)]
}

// allocate returns an entry that is free.
func (s *entries) allocate() (number uint32, e *entry) {
	s.held++
	if s.free != 0 {
		number = s.free
		e = s.at(number)
		s.free = e.lo
		return number, e
	}
	if int(s.used) == s.room() {
		s.extend()
	}
	s.used++
	return s.used, s.at(s.used)
}

// release makes an entry free.
func (s *entries) release(number uint32) {
	*s.at(number) = entry{lo: s.free}
	s.free = number
	s.held--
}

func (s *entries) room() int {
	if len(s.chunks) == 0 {
		return 0
	}
	return (len(s.chunks)-1)<<chunkBits + len(s.chunks[len(s.chunks)-1])
}

func (s *entries) extend() {
	switch first := len(s.chunks) == 1; {
	case len(s.chunks) == 0:
		s.chunks = [][]entry{make([]entry, smallest)}
	case first && len(s.chunks[0]) < chunkSize:
		larger := make([]entry, 2*len(s.chunks[0]))
		copy(larger, s.chunks[0])
		s.chunks[0] = larger
	default:
		s.chunks = append(s.chunks, make([]entry, chunkSize))
	}
}
