package storage

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// sightings are the last states seen of keys, for about as many keys as they are made for:
// what an engine remembers. Nil sightings remember nothing.
//
// A key has its place in a small set, by its hash. Where the set is full, the key gives way
// whose state was seen longest ago. To ask takes no lock.
type sightings struct {
	seed   maphash.Seed
	sets   uint64
	places int // in each set
	blocks []atomic.Pointer[sightingBlock]
}

const (
	sightingPlaces = 8 // in a set, at most
	sightingSets   = 4 // in a block
	sightingKeys   = 1 << 24
)

// sightingBlock is made when the first key of it is seen: most limiters have few keys.
type sightingBlock [sightingSets]sightingSet

type sightingSet struct {
	mu   sync.Mutex // for changes
	puts uint64
	tags [sightingPlaces]atomic.Uint32
	seen [sightingPlaces]atomic.Pointer[sighting]
}

type sighting struct {
	key    string
	record Record
	at     time.Time
	put    uint64 // which of its set
}

func newSightings(keys int) *sightings {
	if keys < 0 {
		return nil
	}
	keys = min(keys, sightingKeys)
	places := min(keys, sightingPlaces)
	sets := (keys-1)/places + 1
	return &sightings{
		seed: maphash.MakeSeed(), sets: uint64(sets), places: places,
		blocks: make([]atomic.Pointer[sightingBlock], (sets-1)/sightingSets+1),
	}
}

// recall is what is remembered of key. It was seen, if it was, no longer ago than
// maxAge, if that is not 0.
func (m *sightings) recall(key string, maxAge time.Duration, clock func() time.Time) (r Record, seen bool) {
	if m == nil {
		return Record{}, false
	}
	s := find(m, maphash.String(m.seed, key), key)
	if s == nil {
		return Record{}, false
	}
	return s.record, maxAge == 0 || s.isWithin(maxAge, clock())
}

// glance finds what is remembered of a key, without a string of it.
func (m *sightings) glance(key []byte) *sighting {
	if m == nil {
		return nil
	}
	return find(m, maphash.Bytes(m.seed, key), key)
}

// isWithin reports whether the sighting is no older than that. One that is ahead of
// the clock, which was set back, has no age.
func (s *sighting) isWithin(age time.Duration, now time.Time) bool {
	since := now.Sub(s.at)
	return since >= 0 && since <= age
}

func find[Key string | []byte](m *sightings, hash uint64, key Key) *sighting {
	set := m.set(hash)
	if set == nil {
		return nil
	}
	_, s := search(set, hash, key)
	return s
}

// set is where keys of that hash are, nil if there are none.
func (m *sightings) set(hash uint64) *sightingSet {
	block, i := m.place(hash)
	if b := block.Load(); b != nil {
		return &b[i]
	}
	return nil
}

func (m *sightings) place(hash uint64) (block *atomic.Pointer[sightingBlock], set uint64) {
	set = hash >> 32 * m.sets >> 32
	return &m.blocks[set/sightingSets], set % sightingSets
}

// search finds what is known of a key, and its place.
func search[Key string | []byte](set *sightingSet, hash uint64, key Key) (place int, s *sighting) {
	for i := range set.tags {
		if set.tags[i].Load() != uint32(hash) { // few pointers are worth following
			continue
		}
		if s := set.seen[i].Load(); s != nil && s.key == string(key) {
			return i, s
		}
	}
	return 0, nil
}

func (m *sightings) put(key string, at time.Time, r Record) {
	if m == nil {
		return
	}
	hash := maphash.String(m.seed, key)
	set := m.set(hash)
	if set == nil {
		block, _ := m.place(hash)
		block.CompareAndSwap(nil, new(sightingBlock)) // or another has
		set = m.set(hash)
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	place, known := search(set, hash, key)
	if known == nil {
		place = set.oldest(m.places)
	}
	set.puts++
	set.seen[place].Store(&sighting{key, r, at, set.puts})
	set.tags[place].Store(uint32(hash))
}

// oldest is the place that is given away next: an empty one, if there is any.
func (set *sightingSet) oldest(places int) (place int) {
	var oldest *sighting
	for i := range places {
		s := set.seen[i].Load()
		if s == nil {
			return i
		}
		if oldest == nil || s.put < oldest.put {
			place, oldest = i, s
		}
	}
	return place
}

func (m *sightings) forget(key string) {
	if m == nil {
		return
	}
	hash := maphash.String(m.seed, key)
	set := m.set(hash)
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if place, known := search(set, hash, key); known != nil {
		set.seen[place].Store(nil)
	}
}
