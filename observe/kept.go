package observe

import (
	"maps"
	"sync"
	"sync/atomic"
)

// kept is what was opened for each key, kept for ever. A key that was seen before
// takes one look-up, no lock and no allocation.
type kept[K comparable, V any] struct {
	open func(K) V

	mu   sync.Mutex
	seen atomic.Pointer[map[K]V] // never changed, only replaced
}

func (k *kept[K, V]) get(key K) V {
	if seen := k.seen.Load(); seen != nil {
		if v, ok := (*seen)[key]; ok {
			return v
		}
	}
	return k.add(key)
}

func (k *kept[K, V]) add(key K) V {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := make(map[K]V)
	if seen := k.seen.Load(); seen != nil {
		if v, ok := (*seen)[key]; ok {
			return v
		}
		maps.Copy(next, *seen)
	}
	v := k.open(key)
	next[key] = v
	k.seen.Store(&next)
	return v
}
