package memory

import (
	"math/bits"
	"sync"
)

// A store has as many shards as a uint64 has bits, for sets of them. Goroutines
// seldom meet in so many, and they take up 20 KB.
const (
	shardBits = 6 // of a name choose its shard
	shards    = 1 << shardBits
)

// shard is a table with its lock, on five cache lines of its own. A decision moves
// the first of them to its processor, since it writes to it; so that one holds what
// else is written and most of what is read, and the others stay as they are.
type shard struct {
	mu        sync.Mutex
	table     table
	published int64   // what Store.nearest says of it
	scratch   scratch // of whoever holds the lock
	_         [40]byte
}

func (s *Store) table(n Name) *table { return &s.shards[n.shard()].table }

// lock locks the shards of names, always in the same order, and returns the set of
// them.
func (s *Store) lock(names []Name) (locked uint64) {
	for _, n := range names {
		locked |= 1 << n.shard()
	}
	for set := locked; set != 0; set &= set - 1 {
		s.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
	return locked
}

func (s *Store) unlock(locked uint64) {
	for set := locked; set != 0; set &= set - 1 {
		s.unlockOne(bits.TrailingZeros64(set))
	}
}

// unlockOne says first when the shard's records begin to lapse now.
func (s *Store) unlockOne(i int) {
	sh := &s.shards[i]
	if at := sh.table.calendar.top; at != sh.published {
		sh.published = at
		s.nearest[i].Store(at)
	}
	sh.mu.Unlock()
}
