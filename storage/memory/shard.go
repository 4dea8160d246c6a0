package memory

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/storage"
)

// shard is a table with its lock. It fills four cache lines.
type shard struct {
	table table
	*lock

	firstExpiry atomic.Int64 // byExpiry.least of the table; is read without the lock
	partition   *partition
	_           [48]byte
}

// lock guards the shards with one number, one of each partition. So a decision on one key under several rules takes one lock.
// It fills a cache line, and apart from the entries it is all that a decision usually writes.
type lock struct {
	mu          sync.Mutex
	number      int
	lastVersion storage.Version // of nextVersion
	buffers     [][]byte        // of the i-th key of a decision, for its next state; guarded by mu
	_           [16]byte
}

// unlock publishes the first expiry and unlocks the shard.
func (s *shard) unlock() {
	s.publish()
	s.mu.Unlock()
}

func (s *shard) publish() {
	if first := s.table.byExpiry.least; first != s.firstExpiry.Load() {
		s.firstExpiry.Store(first)
	}
}

// lockSet is a set of locks by their numbers.
type lockSet uint64

func (s *lockSet) add(l *lock) { *s |= 1 << l.number }

// lock takes the locks in their order, so that transactions cannot wait for each other in a circle.
func (s *Store) lock(all lockSet) {
	for ; all != 0; all &= all - 1 {
		s.locks[bits.TrailingZeros64(uint64(all))].mu.Lock()
	}
}

func (s *Store) unlock(all lockSet) {
	for ; all != 0; all &= all - 1 {
		s.locks[bits.TrailingZeros64(uint64(all))].mu.Unlock()
	}
}

// buffer returns an empty slice for the next state of the i-th key of a decision, so that a decision does not allocate.
func (l *lock) buffer(i int) []byte {
	for len(l.buffers) <= i {
		l.buffers = append(l.buffers, make([]byte, 0, maxInline))
	}
	return l.buffers[i]
}

// grow makes room in the i-th buffer for a state of that length, unless it is long.
func (l *lock) grow(i, length int) {
	const longest = 256
	if length > cap(l.buffers[i]) && length <= longest {
		l.buffers[i] = make([]byte, 0, length+length/2)
	}
}

// mayHaveExpired reports without a lock whether the shard may hold an expired record.
func (s *shard) mayHaveExpired(at int64) bool {
	first := s.firstExpiry.Load()
	return first != unwritten && first <= at
}

// removeExpired removes up to max expired records, but at most 64, so that decisions do not wait
// long for the lock.
func (s *shard) removeExpired(at int64, max int) (removed int) {
	s.mu.Lock()
	defer s.unlock()
	for ; removed < min(max, 64); removed++ {
		number, expires := s.table.firstToExpire()
		if expires > at {
			break
		}
		s.table.removeAndCount(number, at)
	}
	if s.table.entries.count == 0 {
		s.table.clear() // frees its memory
	}
	return removed
}

// clear removes all records and returns their number.
func (s *shard) clear() (removed int) {
	s.mu.Lock()
	defer s.unlock()
	return s.table.clear()
}

// removeChosen removes the entry that choose returns. It returns false if choose returns 0.
func (s *shard) removeChosen(choose func(*table) (number uint32), at int64) bool {
	s.mu.Lock()
	defer s.unlock()
	if s.partition.isWithinBound() { // another goroutine has removed records meanwhile
		return true
	}
	number := choose(&s.table)
	if number != 0 {
		s.table.removeAndCount(number, at)
	}
	return number != 0
}

func (s *shard) lowestRank(keep hash) int64 {
	s.mu.Lock()
	defer s.unlock()
	_, rank := s.table.lowestRank(keep)
	return rank
}

// nextVersion returns a new version for a write of Transact. Versions only need to differ. The first
// one is random, and they repeat after 2^64 writes.
func (l *lock) nextVersion() storage.Version {
	if l.lastVersion++; l.lastVersion <= 1 {
		l.lastVersion = storage.NewVersion()
	}
	return l.lastVersion
}
