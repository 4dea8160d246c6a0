package memory

import (
	"math/bits"
	"sync"
)

const (
	shardBits  = 6
	shardCount = 1 << shardBits // as many as a uint64 has bits
)

// shard is a table with its lock, on cache lines of its own.
type shard struct {
	mu      sync.Mutex
	table   table
	scratch scratch
	_       [64]byte
}

func (s *Store) table(n name) *table { return &s.shards[n.shard()].table }

// lock locks the shards of names, always in the same order, and returns the set of
// them.
func (s *Store) lock(names []name) (locked uint64) {
	for _, n := range names {
		locked |= 1 << n.shard()
	}
	for set := locked; set != 0; set &= set - 1 {
		s.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
	return locked
}

// unlock says first when each shard's records begin to lapse now.
func (s *Store) unlock(locked uint64) {
	for set := locked; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		s.publish(i)
		s.shards[i].mu.Unlock()
	}
}

func (s *Store) publish(i int) {
	if at := s.shards[i].table.earliest(); at != s.nearest[i].Load() {
		s.nearest[i].Store(at)
	}
}
