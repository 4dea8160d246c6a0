package memstore

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// shard is a table with its lock. It fills five cache lines. A decision writes only to the first
// one, which therefore holds all that a decision writes and most of what it reads.
type shard struct {
	mu        sync.Mutex
	table     table
	published published
	scratch   scratch // guarded by mu

	partition   *partition
	firstExpiry *atomic.Int64 // the instant at which the first record expires, or earlier; or none, or unwritten
	lockOrder   uint64        // the shards of a store are locked in this order
	_           [16]byte
}

// published is what the partition knows about a shard.
type published struct {
	firstExpiry      int64
	count, protected int
}

// unlock publishes the changes of the table and unlocks the shard.
func (s *shard) unlock() {
	t, p := &s.table, &s.published
	if now := t.byExpiry.least; now != p.firstExpiry {
		p.firstExpiry = now
		s.firstExpiry.Store(now)
	}
	if now := t.entries.count; now != p.count {
		s.partition.keys.Add(int64(now - p.count))
		p.count = now
	}
	if now := t.protected; now != p.protected {
		s.partition.protected.Add(int64(now - p.protected))
		p.protected = now
	}
	s.mu.Unlock()
}

// lockShards appends the shards of names to dst, each once, and locks them in their order.
func lockShards(dst []*shard, names []Name) (locked []*shard) {
	for _, n := range names {
		dst = append(dst, n.shard())
	}
	slices.SortFunc(dst, func(a, b *shard) int { return cmp.Compare(a.lockOrder, b.lockOrder) })
	dst = slices.Compact(dst)
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
