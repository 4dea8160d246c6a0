package memory

import (
	"time"

	"github.com/sluice-go/sluice/storage"
)

// maxInline is the length of the longest state that is stored in its entry. The states of gcra,
// tokenbucket and fixedwindow fit.
const maxInline = 25

// longState is the size of an entry whose state is stored in longStates.
const longState = 255

// entry is one record. It takes 56 bytes. It has no pointers, so the garbage collector does not
// scan entries.
type entry struct {
	hi      uint64
	version storage.Version // 0: the entry is free
	expires int64
	lo      uint32 // of a free entry, the number of the next free one
	tail    uint8
	size    uint8 // of the state, or longState
	mark    mark
	state   [maxInline]byte
}

// mark is a storage.Priority, and a bit that eviction uses.
type mark uint8

const (
	priorityBits mark = 3
	rewritten    mark = 4 // the record was written again; see table.secondChance
)

func (m mark) isProtected() bool { return m&priorityBits >= mark(storage.UsedHalf) }

// has reports whether an entry that is not free has a hash.
func (e *entry) has(h hash) bool {
	return e.hi == h.hi && e.lo == h.lo && e.tail == h.tail
}

// ttl returns how long the entry will be kept; 0 means for ever.
func (e *entry) ttl(at int64) time.Duration {
	if e.expires == never {
		return 0
	}
	return time.Duration(e.expires - at)
}

func (e *entry) hash() hash { return hash{e.hi, e.lo, e.tail} }

// rank is the order in which protected records are evicted: the lowest priority first, then the
// earliest expiry. The rank of an unprotected record is none.
func (e *entry) rank() int64 {
	if !e.mark.isProtected() {
		return none
	}
	return int64(e.mark&priorityBits)<<60 | e.expires>>3
}

// Entries are allocated in chunks, so that growth copies at most the first one. A chunk has exactly a
// size of the Go allocator, and it is a multiple of blockSize.
const (
	chunkBits  = 8
	chunkSize  = 1 << chunkBits
	firstChunk = 8 // the initial capacity of the first chunk
)

// entries holds the entries of a table by number. Numbers start with 1. An entry keeps its number.
type entries struct {
	chunks    [][]entry
	highest   uint32 // the highest number that was ever allocated
	firstFree uint32 // the head of the list of free entries; 0 if there is none
	count     int    // the number of entries that are not free
}

func (s *entries) at(number uint32) *entry {
	i := number - 1
	return &s.chunks[i>>chunkBits][i&(chunkSize-1)]
}

// allocate returns a free entry.
func (s *entries) allocate() (number uint32, e *entry) {
	s.count++
	if number = s.firstFree; number != 0 {
		e = s.at(number)
		s.firstFree = e.lo
		return number, e
	}
	last := int(s.highest >> chunkBits)
	if last == len(s.chunks) {
		s.chunks = append(s.chunks, make([]entry, 0, min(chunkSize, max(firstChunk, s.highest))))
	}
	s.chunks[last] = append(s.chunks[last], entry{})
	s.highest++
	return s.highest, s.at(s.highest)
}

func (s *entries) free(number uint32) {
	*s.at(number) = entry{lo: s.firstFree}
	s.firstFree = number
	s.count--
}
