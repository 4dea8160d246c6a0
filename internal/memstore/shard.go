package memstore

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// shard is a table with its lock, on five cache lines of its own. A decision moves
// the first of them to its processor, since it writes to it; so that one holds what
// else is written and most of what is read, and the others stay as they are.
type shard struct {
	mu        sync.Mutex
	table     table
	published published
	scratch   scratch // of whoever holds the lock

	partition *partition
	nearest   *atomic.Int64 // when the first record lapses, or earlier; or none, or untouched
	rank      uint64        // shards of a store are locked in the order of their ranks
	_         [16]byte
}

// published is what the partition knows of a shard.
type published struct {
	nearest         int64
	held, protected int
}

// unlock publishes first what has changed in the table.
func (s *shard) unlock() {
	t, p := &s.table, &s.published
	if now := t.lapses.top; now != p.nearest {
		p.nearest = now
		s.nearest.Store(now)
	}
	if now := t.entries.held; now != p.held {
		s.partition.keys.Add(int64(now - p.held))
		p.held = now
	}
	if now := t.protected; now != p.protected {
		s.partition.protected.Add(int64(now - p.protected))
		p.protected = now
	}
	s.mu.Unlock()
}

// lockAll locks the shards of names, always in the same order, and appends them to dst,
// each once.
func lockAll(dst []*shard, names []Name) (locked []*shard) {
	for _, n := range names {
		dst = append(dst, n.shard())
	}
	slices.SortFunc(dst, byRank)
	dst = slices.Compact(dst)
	for _, s := range dst {
		s.mu.Lock()
	}
	return dst
}

func byRank(a, b *shard) int { return cmp.Compare(a.rank, b.rank) }

func unlockAll(locked []*shard) {
	for _, s := range locked {
		s.unlock()
	}
}
