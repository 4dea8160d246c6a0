package storage

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// memory is the last state seen of each key. The nil memory remembers nothing.
type memory struct {
	cache *lru.Cache[string, *sighting]

	// hot are keys that were lately put, or whose remembered state lately answered, each
	// at the place of its hash, so that asking for a key that many ask for takes no lock.
	hot  []hotPlace
	seed maphash.Seed
}

// hotPlace tells by the hash, which is checked first, whether it is worth it to
// follow the pointer.
type hotPlace struct {
	hash atomic.Uint64
	seen atomic.Pointer[sighting]
}

type sighting struct {
	key    string
	record Record
	at     time.Time
}

const hotKeys = 1024

func newMemory(keys int) *memory {
	if keys < 0 {
		return nil
	}
	cache, err := lru.New[string, *sighting](keys)
	if err != nil {
		panic(err) // it refuses a size below 1 only
	}
	m := &memory{cache: cache, seed: maphash.MakeSeed()}
	if keys >= hotKeys {
		m.hot = make([]hotPlace, hotKeys)
	}
	return m
}

// recall is what is remembered of key. It was seen, if it was, no longer ago than
// maxAge, if that is not 0.
func (m *memory) recall(key string, maxAge time.Duration, clock func() time.Time) (r Record, seen bool) {
	if m == nil {
		return Record{}, false
	}
	s := m.find(key)
	if s == nil {
		return Record{}, false
	}
	return s.record, maxAge == 0 || s.isWithin(maxAge, clock())
}

// isWithin reports whether the sighting is no older than that. One that is ahead of
// the clock, which was set back, has no age.
func (s *sighting) isWithin(age time.Duration, now time.Time) bool {
	since := now.Sub(s.at)
	return since >= 0 && since <= age
}

func (m *memory) find(key string) *sighting {
	if m.hot != nil {
		hash := maphash.String(m.seed, key)
		if s := m.place(hash).find(hash); s != nil && s.key == key {
			return s
		}
	}
	s, _ := m.cache.Peek(key) // what was written last is kept longest
	return s
}

// heat makes a key hot that is remembered.
func (m *memory) heat(key string) {
	if m == nil || m.hot == nil {
		return
	}
	hash := maphash.String(m.seed, key)
	place := m.place(hash)
	if s := place.find(hash); s != nil && s.key == key {
		return
	}
	other := place.seen.Load()
	s, ok := m.cache.Peek(key)
	if ok && place.seen.CompareAndSwap(other, s) { // not over one that was put meanwhile
		place.hash.Store(hash)
		if latest, _ := m.cache.Peek(key); latest != s { // it was, and gave way to other again
			place.seen.CompareAndSwap(s, nil)
		}
	}
}

func (m *memory) place(hash uint64) *hotPlace { return &m.hot[hash%hotKeys] }

// find is what is there, unless it is certainly of another hash.
func (p *hotPlace) find(hash uint64) *sighting {
	if p.hash.Load() != hash {
		return nil
	}
	return p.seen.Load()
}

// glance finds what is hot under a key, without a string of it.
func (m *memory) glance(key []byte) *sighting {
	if m == nil || m.hot == nil {
		return nil
	}
	hash := maphash.Bytes(m.seed, key)
	s := m.place(hash).find(hash)
	if s == nil || s.key != string(key) {
		return nil
	}
	return s
}

func (m *memory) put(key string, at time.Time, r Record) {
	if m == nil {
		return
	}
	s := &sighting{key, r, at}
	m.cache.Add(key, s)
	if m.hot != nil {
		hash := maphash.String(m.seed, key)
		place := m.place(hash)
		place.seen.Store(s)
		place.hash.Store(hash)
	}
}

func (m *memory) forget(key string) {
	if m == nil {
		return
	}
	m.cache.Remove(key)
	if m.hot != nil {
		place := m.place(maphash.String(m.seed, key))
		if s := place.seen.Load(); s != nil && s.key == key {
			place.seen.CompareAndSwap(s, nil)
		}
	}
}
