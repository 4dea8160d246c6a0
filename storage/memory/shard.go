package memory

import (
	"sync"
	"sync/atomic"
)

// shard is a table with its lock. It fills five cache lines. A decision writes only to the first
// one, which therefore holds all that a decision writes and most of what it reads.
type shard struct {
	mu    sync.Mutex
	table table

	firstExpiry atomic.Int64 // byExpiry.least of the table; is read without the lock
	lockOrder   uint64       // the shards of a store are locked in this order
	buffers     [][]byte     // of the i-th key of a decision, for its next state; guarded by mu
	partition   *partition
	_           [8]byte
}

// unlock publishes the first expiry and unlocks the shard.
func (s *shard) unlock() {
	if first := s.table.byExpiry.least; first != s.firstExpiry.Load() {
		s.firstExpiry.Store(first)
	}
	s.mu.Unlock()
}

// lockShards appends the shards of names to dst, each once, and locks them in their order.
func lockShards(dst []*shard, names []name) (locked []*shard) {
	for i := range names {
		s, at := names[i].shard, len(dst)
		for at > 0 && dst[at-1].lockOrder > s.lockOrder {
			at--
		}
		if at == 0 || dst[at-1] != s {
			dst = append(dst, s)
			copy(dst[at+1:], dst[at:])
			dst[at] = s
		}
	}
	for _, s := range dst {
		s.mu.Lock()
	}
	return dst
}

func unlockShards(locked []*shard) {
	for _, s := range locked {
		s.unlock()
	}
}

// buffer returns an empty slice for the next state of the i-th key of a decision, so that a decision does not allocate.
func (s *shard) buffer(i int) []byte {
	for len(s.buffers) <= i {
		s.buffers = append(s.buffers, make([]byte, 0, maxInline))
	}
	return s.buffers[i]
}

// grow makes room in the i-th buffer for a state of that length, unless it is long.
func (s *shard) grow(i, length int) {
	const longest = 256
	if length > cap(s.buffers[i]) && length <= longest {
		s.buffers[i] = make([]byte, 0, length+length/2)
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
	s.table.freeIfEmpty()
	return removed
}

// clear removes all records and returns their number.
func (s *shard) clear() (removed int) {
	s.mu.Lock()
	defer s.unlock()
	return s.table.clear()
}

// removeChosen removes the entry that choose returns, unless it returns 0.
func (s *shard) removeChosen(choose func(*table) (number uint32), at int64) bool {
	s.mu.Lock()
	defer s.unlock()
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
