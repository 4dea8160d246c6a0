package memory

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultMaxKeys is the default of Store.MaxKeys. That many records take about 70 MB.
const DefaultMaxKeys = 1 << 20

// Store implements [storage.Store] and [driver.Transactor] in memory. It is safe for concurrent use. It must not be copied, and
// its fields must not change after the first use. If a limiter has a Clock, records last until their TTL has passed by both
// clocks.
type Store struct {
	locks [maxShards]lock // first, so that each fills a cache line

	// MaxKeys is the maximum number of records with the same Rule in their driver.RuleKey. 0 or less means DefaultMaxKeys,
	// math.MaxInt no maximum. Concurrent writes can exceed it for a moment.
	MaxKeys int
	// Clock is the clock of the store. nil means a monotonic clock; see Now.
	Clock func() time.Time

	startClock sync.Once                             // sets clockStart
	clockStart time.Time                             // by both clocks; see Now
	partitions atomic.Pointer[map[string]*partition] // by rule; a new rule replaces the map
	creating   sync.Mutex                            // is held while the map is replaced
}

var (
	_ driver.Transactor = (*Store)(nil)
	_ storage.Purger    = (*Store)(nil)
)

func (s *Store) Load(ctx context.Context, keys ...string) (records []storage.Record, now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, now, err
	}
	if err := driver.CheckLoad(keys); err != nil || len(keys) == 0 {
		return nil, now, err
	}
	at := s.instant()
	records = make([]storage.Record, len(keys))
	for i, key := range keys {
		parts, _ := driver.ParseKey(key)
		if s.findPartition(parts.Rule) == nil {
			continue // locate would create the partition
		}
		loc := s.locate(key)
		sh := loc.shard
		sh.mu.Lock()
		records[i] = sh.table.copyOf(loc.hash, at)
		sh.mu.Unlock()
	}
	return records, time.Unix(0, at), nil
}

func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil {
		return nil, false, err
	}
	locations, at, locks := make([]location, len(keys)), s.instant(), lockSet(0)
	for i, key := range keys {
		locations[i] = s.locate(key)
		locks.add(locations[i].shard.lock)
	}
	s.lock(locks)
	defer s.finish(locks, locations, at)
	swapped = true
	for i, loc := range locations {
		current = append(current, loc.shard.table.copyOf(loc.hash, at))
		swapped = swapped && current[i].Version == swaps[i].Old
	}
	if !swapped {
		return current, false, nil
	}
	for i, loc := range locations {
		t, swap := &loc.shard.table, &swaps[i]
		if swap.New.Version == 0 {
			t.remove(loc.hash)
			continue
		}
		t.put(loc.hash, swap.New.State, properties{swap.New.Version, expiry(at, swap.TTL), swap.Priority})
	}
	return nil, true, nil
}

// fewKeys is the number of keys of a transaction up to which it does not allocate.
const fewKeys = 4

func (s *Store) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	var someLocations [fewKeys]location
	locations, locks := someLocations[:0], lockSet(0)
	for _, u := range updates {
		for i := range u.Items {
			loc := s.locateItem(u.Items, i, locations)
			locations = append(locations, loc)
			locks.add(loc.shard.lock)
		}
	}
	s.lock(locks)
	all, own := locations, int64(0)
	defer func() { s.finish(locks, all, own) }() // also if a clock panics
	own = s.instant()
	now, latest := time.Unix(0, own), own
	if clock != nil {
		now = clock()
		latest = max(own, instantOf(now))
	}
	for _, u := range updates {
		decide(u, now, own, latest, locations[:len(u.Items)])
		locations = locations[len(u.Items):]
	}
	return nil
}

// locateItem returns the location of an item's key. locations ends with that of the item before. Several rules often have the same
// key, and to hash it takes longer than to compare it.
func (s *Store) locateItem(items []driver.Item, i int, locations []location) location {
	k := &items[i].Key
	if !k.IsShort() {
		return s.locate(k.String())
	}
	if i > 0 {
		before := &items[i-1].Key
		if k.Key == before.Key && k.Group == before.Group && before.IsShort() {
			return s.locateHash(k.Rule, locations[len(locations)-1].hash)
		}
	}
	return s.locateHash(k.Rule, hashOfParts(k)) // the text need not be built
}

// finish ends a transaction on the records at locations.
func (s *Store) finish(locks lockSet, locations []location, at int64) {
	for i := range locations {
		locations[i].shard.publish()
	}
	s.unlock(locks)
	evict(locations, at)
}

// decide runs an update on the records at locations, whose shards are locked. own is the time by the store's clock, and
// latest is the later one of now and own.
func decide(u *driver.Update, now time.Time, own, latest int64, locations []location) {
	for i := range locations {
		loc, item := &locations[i], &u.Items[i]
		sh := loc.shard
		var e *entry
		loc.number, e = sh.table.find(loc.hash)
		sh.table.read(&item.Found, e, own)
		item.Next = driver.Change{State: sh.buffer(i)}
	}
	if !u.Decide(now) {
		return
	}
	for i := range locations {
		loc, c := &locations[i], &u.Items[i].Next
		switch sh := loc.shard; c.Verb {
		case driver.Put:
			sh.table.putAt(loc.hash, loc.number, c.State, properties{sh.nextVersion(), expiry(latest, c.TTL), c.Priority})
			sh.grow(i, len(c.State))
		case driver.Delete:
			sh.table.remove(loc.hash)
		}
	}
}

// Purge implements [storage.Purger]. It is optional: it saves decisions the time to evict, and frees most of the memory of rules
// without records.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	at := s.instant()
	for _, p := range s.allPartitions() {
		removed += p.removeExpired(at, max-removed)
	}
	return removed, nil
}

// Clear removes all records of the rules whose text (see driver.Rule) begins with prefix. It returns how many, including expired
// ones.
func (s *Store) Clear(prefix string) (removed int) {
	for rule, p := range s.allPartitions() {
		if strings.HasPrefix(rule, prefix) {
			for i := range p.shards {
				removed += p.shards[i].clear()
			}
		}
	}
	return removed
}

// Stats counts the records of a store.
type Stats struct {
	Keys    int   // in the store now, including expired records
	Evicted int64 // removed before they expired, because the store was full
	Expired int64 // removed after they expired
}

// Stats returns the counts since the store was created.
func (s *Store) Stats() (stats Stats) {
	for _, p := range s.allPartitions() {
		stats.Keys += int(p.counters.keys.Load())
		stats.Evicted += p.counters.evicted.Load()
		stats.Expired += p.counters.expired.Load()
	}
	return stats
}
