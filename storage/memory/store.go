package memory

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// DefaultMaxKeys is how many records a Store holds at most when its MaxKeys is 0:
// about 70 MB of them.
const DefaultMaxKeys = 1 << 20

// Store keeps records in memory. The zero Store is ready for use. It may be used
// from any number of goroutines, must not be copied, and its fields must not be
// changed once it is in use. It needs no closing.
type Store struct {
	// MaxKeys is how many records are held at most; 0 or less: DefaultMaxKeys, and for
	// no bound math.MaxInt.
	MaxKeys int
	// Clock tells the time to the methods that are not handed one: Load,
	// CompareAndSwap and Purge; nil: the monotonic clock, see Now.
	Clock func() time.Time

	began   atomic.Pointer[beginning] // see Now
	keys    atomic.Int64              // records held or reserved, at most MaxKeys
	nearest [shards]atomic.Int64      // of each shard, when its first record lapses, or earlier; or none, or untouched
	_       [32]byte                  // for the shards to begin a cache line
	shards  [shards]shard             // a key belongs to the shard that its name says
}

var (
	_ storage.Timed   = (*Store)(nil)
	_ storage.InPlace = (*Store)(nil)
	_ storage.Purger  = (*Store)(nil)
)

// Load reads records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	return s.LoadAt(ctx, s.Now(), keys...)
}

// CompareAndSwap swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	return s.CompareAndSwapAt(ctx, s.Now(), swaps...)
}

// LoadAt reads records at now; see [storage.Timed].
func (s *Store) LoadAt(ctx context.Context, now time.Time, keys ...string) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := storage.CheckLoad(keys); err != nil {
		return nil, err
	}
	at, records := instant(now), make([]storage.Record, len(keys))
	for i, key := range keys {
		n := NameOf(key)
		sh := &s.shards[n.shard()]
		sh.mu.Lock()
		records[i] = sh.table.record(n, at)
		sh.mu.Unlock()
	}
	return records, nil
}

// CompareAndSwapAt swaps at now; see [storage.Timed]. Swaps that create more
// records than MaxKeys are refused with an error that is [storage.ErrNotApplied].
func (s *Store) CompareAndSwapAt(ctx context.Context, now time.Time, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if err := storage.Check(swaps); err != nil {
		return nil, false, err
	}
	var few [8]Name
	names, at := few[:0], instant(now)
	for i := range swaps {
		names = append(names, NameOf(swaps[i].Key))
	}
	for {
		current, swapped, missing := s.swap(names, at, swaps)
		if missing == 0 {
			return current, swapped, nil
		}
		if err := s.makeRoom(missing, at); err != nil {
			return nil, false, err
		}
	}
}

// swap is one attempt. When there was no room for what it creates it did nothing,
// and missing says how many records those are.
func (s *Store) swap(names []Name, at int64, swaps []storage.Swap) (current []storage.Record, swapped bool, missing int) {
	locked := s.lock(names)
	defer s.unlock(locked)
	creates := 0
	for i := range swaps {
		version, held := s.table(names[i]).version(names[i], at)
		if version != swaps[i].Old {
			return s.records(names, at), false, 0
		}
		if !held && swaps[i].New.Version != 0 {
			creates++
		}
	}
	if !s.reserve(creates) {
		return nil, false, creates
	}
	for i := range swaps {
		swap := &swaps[i]
		if swap.New.Version == 0 {
			s.remove(names[i])
		} else {
			t := s.table(names[i])
			t.put(names[i], t.find(names[i]), swap.New.Version, swap.New.State, lapse(at, swap.TTL))
		}
	}
	return nil, true, 0
}

// records reads what is stored under names, whose shards are locked.
func (s *Store) records(names []Name, at int64) []storage.Record {
	records := make([]storage.Record, len(names))
	for i, n := range names {
		records[i] = s.table(n).record(n, at)
	}
	return records
}

func (s *Store) remove(n Name) {
	if s.table(n).remove(n) {
		s.keys.Add(-1)
	}
}

func (s *Store) maxKeys() int64 {
	if s.MaxKeys <= 0 {
		return DefaultMaxKeys
	}
	return int64(s.MaxKeys)
}

func (s *Store) tooMany(n int) error {
	return storage.NotApplied(fmt.Errorf("memory: %d new keys at once are more than MaxKeys, %d", n, s.maxKeys()))
}
