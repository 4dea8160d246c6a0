package memstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultMaxKeys is how many records of one rule a Store holds at most when its MaxKeys is
// 0: about 70 MB of them.
const DefaultMaxKeys = 1 << 20

// Store has the fields and methods of a memory.Store, which are documented there, and those by
// which a limiter decides in place.
type Store struct {
	MaxKeys int
	Clock   func() time.Time

	began      atomic.Pointer[beginning] // see Now
	partitions sync.Map                  // of *partition by rule
	ranks      atomic.Uint64             // how many partitions were made
}

var (
	_ driver.InPlace = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
)

// Load reads records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	at, records := instant(s.Now()), make([]storage.Record, len(keys))
	for i, key := range keys {
		n, ok := s.find(key)
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

// CompareAndSwap swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if err := driver.Check(swaps); err != nil {
		return nil, false, err
	}
	var few [8]Name
	names, at := few[:0], instant(s.Now())
	for i := range swaps {
		names = append(names, s.Name(swaps[i].Key))
	}
	current, created := swap(names, at, swaps)
	for _, n := range names[:created] {
		s.makeRoom(n, at)
	}
	return current, current == nil, nil
}

// swap returns what is stored if that is not what the swaps expect. Otherwise it moves the
// names of the records that it created to the front, and returns how many they are.
func swap(names []Name, at int64, swaps []storage.Swap) (current []storage.Record, created int) {
	var few [8]*shard
	locked := lockAll(few[:0], names)
	defer unlockAll(locked)
	for i, n := range names {
		if n.shard().table.version(n.hash, at) != swaps[i].Old {
			return records(names, at), 0
		}
	}
	for i, n := range names {
		t, swap := &n.shard().table, &swaps[i]
		if swap.New.Version == 0 {
			t.remove(n.hash)
		} else if t.put(n.hash, t.find(n.hash), swap.New.State, content{swap.New.Version, lapse(at, swap.Lifetime(time.Unix(0, at))), swap.Priority}) {
			names[created] = n
			created++
		}
	}
	return nil, created
}

// records reads what is stored under names, whose shards are locked.
func records(names []Name, at int64) []storage.Record {
	records := make([]storage.Record, len(names))
	for i, n := range names {
		records[i] = n.shard().table.record(n.hash, at)
	}
	return records
}

// makeRoom evicts what is too much, after a record was created.
func (s *Store) makeRoom(created Name, at int64) {
	created.partition.makeRoom(created.hash, s.maxKeys(), at)
}

func (s *Store) maxKeys() int64 {
	if s.MaxKeys <= 0 {
		return DefaultMaxKeys
	}
	return int64(s.MaxKeys)
}
