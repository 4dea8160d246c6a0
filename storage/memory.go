package storage

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// memory is the last state seen of each key. The nil memory remembers nothing.
type memory struct {
	cache *lru.Cache[string, sighting]
}

type sighting struct {
	record Record
	at     time.Time
}

func newMemory(keys int) *memory {
	if keys < 0 {
		return nil
	}
	cache, err := lru.New[string, sighting](keys)
	if err != nil {
		panic(err) // it refuses a size below 1 only
	}
	return &memory{cache}
}

// recall is what is remembered of key. It was seen, if it was, no longer ago than
// maxAge, if that is not 0.
func (m *memory) recall(key string, maxAge time.Duration, clock func() time.Time) (r Record, seen bool) {
	if m == nil {
		return Record{}, false
	}
	s, ok := m.cache.Get(key)
	return s.record, ok && (maxAge == 0 || clock().Sub(s.at) <= maxAge)
}

func (m *memory) put(key string, at time.Time, r Record) {
	if m != nil {
		m.cache.Add(key, sighting{r, at})
	}
}

// keep remembers swaps that were applied.
func (m *memory) keep(at time.Time, swaps []Swap) {
	for _, s := range swaps {
		m.put(s.Key, at, s.New)
	}
}

func (m *memory) forget(key string) {
	if m != nil {
		m.cache.Remove(key)
	}
}
