// Package keylock has a lock for each key. Callers get a lock in the order in which they asked for it.
package keylock

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/storage"
)

// Locks are the locks of all keys. The zero value is ready to use. It is safe for concurrent use.
type Locks struct {
	mu      sync.Mutex
	byKey   map[string]*lock
	callers int
}

// lock is the lock of a key that has callers.
type lock struct {
	held    chan struct{} // is full while a caller holds the lock
	callers int           // that hold the lock or wait for it
}

// Lock waits until the caller holds the locks of all keys, or until ctx ends. The caller must call unlock afterwards, also if
// ctx has ended. If already most callers hold or wait for any locks, the error is [storage.ErrOverloaded].
func (l *Locks) Lock(ctx context.Context, keys []string, most int) (unlock func(), err error) {
	keys = slices.Sorted(slices.Values(keys)) // in one order, so that callers cannot wait for each other in a circle
	locks, err := l.join(keys, most)
	if err != nil {
		return nil, err
	}
	held := 0
	for held < len(locks) && ctx.Err() == nil {
		select {
		case locks[held].held <- struct{}{}:
			held++
		case <-ctx.Done():
		}
	}
	return func() { l.leave(keys, locks[:held]) }, nil
}

// Idle reports whether there are no callers.
func (l *Locks) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers == 0 && len(l.byKey) == 0
}

// join counts a caller, and returns the locks of its keys.
func (l *Locks) join(keys []string, most int) (locks []*lock, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers >= most {
		return nil, fmt.Errorf("%w: %d", storage.ErrOverloaded, l.callers)
	}
	l.callers++
	if l.byKey == nil {
		l.byKey = make(map[string]*lock)
	}
	for _, key := range keys {
		if l.byKey[key] == nil {
			l.byKey[key] = &lock{held: make(chan struct{}, 1)}
		}
		l.byKey[key].callers++
		locks = append(locks, l.byKey[key])
	}
	return locks, nil
}

// leave releases the locks that a caller holds, and forgets the keys without callers.
func (l *Locks) leave(keys []string, held []*lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range held {
		<-lock.held
	}
	l.callers--
	for _, key := range keys {
		if l.byKey[key].callers--; l.byKey[key].callers == 0 {
			delete(l.byKey, key)
		}
	}
}
