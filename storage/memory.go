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

	// hot are keys that were lately put or asked for, each at the place of its
	// hash, so that asking for a key that many ask for takes no lock.
	hot  []atomic.Pointer[sighting]
	seed maphash.Seed
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
		m.hot = make([]atomic.Pointer[sighting], hotKeys)
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
	return s.record, maxAge == 0 || clock().Sub(s.at) <= maxAge
}

func (m *memory) find(key string) *sighting {
	place := m.place(key)
	var other *sighting
	if place != nil {
		if other = place.Load(); other != nil && other.key == key {
			return other
		}
	}
	s, ok := m.cache.Get(key)
	if ok && place != nil {
		place.CompareAndSwap(other, s) // not over one that was put meanwhile
	}
	return s
}

func (m *memory) place(key string) *atomic.Pointer[sighting] {
	if m.hot == nil {
		return nil
	}
	return &m.hot[maphash.String(m.seed, key)%hotKeys]
}

// glance finds what is hot under a key, without a string of it.
func (m *memory) glance(key []byte) *sighting {
	if m == nil || m.hot == nil {
		return nil
	}
	s := m.hot[maphash.Bytes(m.seed, key)%hotKeys].Load()
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
	if place := m.place(key); place != nil {
		place.Store(s)
	}
}

func (m *memory) forget(key string) {
	if m == nil {
		return
	}
	m.cache.Remove(key)
	if place := m.place(key); place != nil {
		if s := place.Load(); s != nil && s.key == key {
			place.CompareAndSwap(s, nil)
		}
	}
}
