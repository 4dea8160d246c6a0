package memory

import (
	"math/bits"
	"runtime"
	"sync"
)

// maxShards is as many as a uint64 has bits.
const maxShards = 64

// shardBits are the bits of a name that choose its shard: eight shards for each
// processor are enough for goroutines to seldom meet, and more of them would only
// be in each other's way in the processors' caches.
var shardBits = bits.Len(uint(min(8*runtime.NumCPU(), maxShards) - 1))

// shard is a table with its lock, on cache lines of its own.
type shard struct {
	mu        sync.Mutex
	published int64 // what Store.nearest says of it
	table     table
	scratch   scratch // for who holds the lock
	_         [64]byte
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

// unlock says first when each shard's records begin to lapse now.
func (s *Store) unlock(locked uint64) {
	for set := locked; set != 0; set &= set - 1 {
		s.unlockOne(bits.TrailingZeros64(set))
	}
}

func (s *Store) unlockOne(i int) {
	sh := &s.shards[i]
	if at := sh.table.calendar.top; at != sh.published {
		sh.published = at
		s.nearest[i].Store(at)
	}
	sh.mu.Unlock()
}
