// Package keylock has a lock for each key. Callers get a lock in the order in which they asked for it.
package keylock

import (
	"slices"
	"sync"
)

// Locks are the locks of all keys. The zero value is ready to use. It is safe for concurrent use.
type Locks struct {
	mu    sync.Mutex
	byKey map[string]*lock
}

// lock is the lock of a key that has callers.
type lock struct {
	free    chan struct{} // has a value while no caller holds the lock
	callers int           // that hold the lock or wait for it
}

// Lock waits until the caller holds the locks of all keys. await receives a value from a channel. If it fails, Lock returns its
// error and holds no lock.
func (l *Locks) Lock(keys []string, await func(<-chan struct{}) error) (unlock func(), err error) {
	keys = slices.Sorted(slices.Values(keys)) // in one order, so that callers cannot wait for each other in a circle
	locks := l.join(keys)
	for held, lock := range locks {
		if err := await(lock.free); err != nil {
			l.leave(keys, locks[:held])
			return nil, err
		}
	}
	return func() { l.leave(keys, locks) }, nil
}

// Idle reports whether there are no callers.
func (l *Locks) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey) == 0
}

// join counts a caller, and returns the locks of its keys.
func (l *Locks) join(keys []string) (locks []*lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string]*lock)
	}
	for _, key := range keys {
		if l.byKey[key] == nil {
			l.byKey[key] = &lock{free: make(chan struct{}, 1)}
			l.byKey[key].free <- struct{}{}
		}
		l.byKey[key].callers++
		locks = append(locks, l.byKey[key])
	}
	return locks
}

// leave releases the locks that a caller holds, and forgets the keys without callers.
func (l *Locks) leave(keys []string, held []*lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range held {
		lock.free <- struct{}{}
	}
	for _, key := range keys {
		if l.byKey[key].callers--; l.byKey[key].callers == 0 {
			delete(l.byKey, key)
		}
	}
}
