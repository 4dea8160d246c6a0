// Package memstore implements memory.Store: records in the memory of this process, with a bounded number
// of records for each rule. The comment of package storage/memory documents its promises.
//
// Package compose decides on a record with a [Cell]. This does not allocate. Compose hashes the
// common prefix of a rule's keys once, as a [Prefix].
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

// Store is memory.Store, which documents it.
type Store struct {
	MaxKeys int
	Clock   func() time.Time

	clockStart atomic.Pointer[clockStart] // see Now
	partitions sync.Map                   // of *partition by rule
	shards     atomic.Uint64              // the number of shards so far; see shard.lockOrder
}

// Load returns the records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	at, records := Instant(s.Now()), make([]storage.Record, len(keys))
	for i, key := range keys {
		_, rule, _ := driver.CutKey(key)
		if _, ok := s.partitions.Load(rule); !ok {
			continue // NameOf would create the partition
		}
		n := NameOf(s, key)
		sh := n.shard()
		sh.mu.Lock()
		records[i] = sh.table.record(n.hash, at)
		sh.mu.Unlock()
	}
	return records, nil
}

// CompareAndSwap applies swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil {
		return nil, false, err
	}
	names, at := make([]Name, len(keys)), Instant(s.Now())
	for i, key := range keys {
		names[i] = NameOf(s, key)
	}
	defer evict(names, at) // after the shards are unlocked
	defer unlockShards(lockShards(nil, names))
	swapped = true
	for i, n := range names {
		current = append(current, n.shard().table.record(n.hash, at))
		swapped = swapped && current[i].Version == swaps[i].Old
	}
	if !swapped {
		return current, false, nil
	}
	for i, n := range names {
		t, swap := &n.shard().table, &swaps[i]
		if swap.New.Version == 0 {
			t.remove(n.hash)
			continue
		}
		t.put(n.hash, swap.New.State, properties{swap.New.Version, expiry(at, swap.Lifetime(time.Unix(0, at))), swap.Priority})
	}
	return nil, true, nil
}

// scratch holds the arguments of a Decider, so that an update does not allocate. An update uses the
// scratch of the first shard that it locks.
type scratch struct {
	found  [][]byte
	next   []driver.Change
	buffer []byte // of Cell.Buffer
}

// Update decides in place; see [driver.InPlace].
func (s *Store) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if err := driver.CheckKeys(keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		return d.Decide(nil, nil)
	}
	var array [8]Name
	names, at := array[:0], Instant(now)
	for _, key := range keys {
		names = append(names, NameOf(s, key))
	}
	defer evict(names, at) // after the shards are unlocked
	var shards [8]*shard
	locked := lockShards(shards[:0], names)
	defer unlockShards(locked)
	w := &locked[0].scratch
	defer w.clear()
	for _, n := range names {
		t := &n.shard().table
		_, e := t.find(n.hash)
		w.found, w.next = append(w.found, t.state(e, at)), append(w.next, driver.Change{})
	}
	if err := d.Decide(w.found, w.next); err != nil {
		return err
	}
	if err := driver.CheckChanges(keys, w.next); err != nil {
		return err
	}
	for i, n := range names {
		switch t, c := &n.shard().table, &w.next[i]; c.Verb {
		case driver.Put:
			t.put(n.hash, c.State, properties{t.nextVersion(), expiry(at, c.TTL), c.Priority})
		case driver.Delete:
			t.remove(n.hash)
		}
	}
	return nil
}

// clear removes references to memory of the Decider.
func (w *scratch) clear() {
	clear(w.found)
	clear(w.next)
	w.found, w.next = w.found[:0], w.next[:0]
}

// Purge calls Sweep with the time of Clock; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Sweep(s.Now(), max), nil
}

// Sweep removes up to max records that have expired at now, and returns how many it removed.
func (s *Store) Sweep(now time.Time, max int) (removed int) {
	at := Instant(now)
	s.partitions.Range(func(_, p any) bool {
		removed += p.(*partition).removeExpired(at, max-removed)
		return removed < max
	})
	return removed
}

// Stats is memory.Stats.
type Stats struct {
	Keys             int
	Evicted, Expired int64
}

// Stats returns the sums over all rules. If other goroutines write, the numbers are of slightly
// different instants.
func (s *Store) Stats() (stats Stats) {
	s.partitions.Range(func(_, p any) bool {
		c := &p.(*partition).counters
		stats.Keys += int(c.keys.Load())
		stats.Evicted += c.evicted.Load()
		stats.Expired += c.expired.Load()
		return true
	})
	return stats
}
