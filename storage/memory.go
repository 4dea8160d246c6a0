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

// recall fills in what is remembered, and reports whether that is every key,
// none of it older than maxAge, if that is not 0.
func (m *memory) recall(keys []string, found []Record, maxAge time.Duration, clock func() time.Time) (all bool) {
	if m == nil {
		return false
	}
	all = true
	for i, key := range keys {
		s, ok := m.cache.Get(key)
		found[i] = s.record
		all = all && ok && (maxAge == 0 || clock().Sub(s.at) <= maxAge)
	}
	return all
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

func (m *memory) forget(keys []string) {
	if m == nil {
		return
	}
	for _, key := range keys {
		m.cache.Remove(key)
	}
}
