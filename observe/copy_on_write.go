package observe

import (
	"maps"
	"sync"
	"sync/atomic"
)

// copyOnWriteMap creates a value for each key once, and never deletes it. To get an existing
// value takes no lock and no allocation. A sync.Map would allocate an interface for each
// key.
type copyOnWriteMap[K comparable, V any] struct {
	create func(K) V

	mu     sync.Mutex              // held by writers
	values atomic.Pointer[map[K]V] // never changed, only replaced
}

func (m *copyOnWriteMap[K, V]) get(key K) V {
	if v, ok := m.load()[key]; ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.load()
	if v, ok := before[key]; ok {
		return v
	}
	next := make(map[K]V, len(before)+1)
	maps.Copy(next, before)
	next[key] = m.create(key)
	m.values.Store(&next)
	return next[key]
}

func (m *copyOnWriteMap[K, V]) load() map[K]V {
	if values := m.values.Load(); values != nil {
		return *values
	}
	return nil
}
