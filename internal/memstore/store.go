package memstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultMaxKeys is memory.DefaultMaxKeys.
const DefaultMaxKeys = 1 << 20

// Store has the fields and methods of memory.Store, which documents them. It also has the methods with
// which a limiter decides in place.
type Store struct {
	MaxKeys int
	Clock   func() time.Time

	clockStart atomic.Pointer[clockStart] // see Now
	partitions sync.Map                   // of *partition by rule
	shards     atomic.Uint64              // the number of shards so far; see shard.lockOrder
}

var (
	_ driver.InPlace = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
)

// Load returns the records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	at, records := instant(s.Now()), make([]storage.Record, len(keys))
	for i, key := range keys {
		n, ok := s.existingName(key)
		if !ok {
			continue
		}
		sh := n.shard()
		sh.mu.Lock()
		records[i] = sh.table.record(n.hash, at)
		sh.mu.Unlock()
	}
	return records, nil
}

// CompareAndSwap applies swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if err := driver.Check(swaps); err != nil {
		return nil, false, err
	}
	var array [8]Name
	names, at := array[:0], instant(s.Now())
	for i := range swaps {
		names = append(names, s.Name(swaps[i].Key))
	}
	if current = swap(names, at, swaps); current == nil {
		s.evict(names, at)
	}
	return current, current == nil, nil
}

// swap applies swaps, or returns the stored records if there is a conflict.
func swap(names []Name, at int64, swaps []storage.Swap) (current []storage.Record) {
	var array [8]*shard
	locked := lockShards(array[:0], names)
	defer unlockShards(locked)
	for i, n := range names {
		if n.shard().table.version(n.hash, at) != swaps[i].Old {
			return records(names, at)
		}
	}
	for i, n := range names {
		t, swap := &n.shard().table, &swaps[i]
		if swap.New.Version == 0 {
			t.remove(n.hash)
			continue
		}
		t.put(n.hash, swap.New.State, properties{swap.New.Version, expiry(at, swap.Lifetime(time.Unix(0, at))), swap.Priority})
	}
	return nil
}

// records copies the records of names, whose shards must be locked.
func records(names []Name, at int64) []storage.Record {
	records := make([]storage.Record, len(names))
	for i, n := range names {
		records[i] = n.shard().table.record(n.hash, at)
	}
	return records
}

// evict restores the bound after a write of names.
func (s *Store) evict(names []Name, at int64) {
	for _, n := range names {
		n.partition.evict(n.hash, s.maxKeys(), at)
	}
}

func (s *Store) maxKeys() int64 {
	if s.MaxKeys <= 0 {
		return DefaultMaxKeys
	}
	return int64(s.MaxKeys)
}
