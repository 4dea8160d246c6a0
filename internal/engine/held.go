package engine

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// A key is held if another transaction has its lock for longer than a batch waits. Its requests must not delay others, so
// swaps decide them, one at a time, until one succeeds.

// heldFor is how long a key counts as held after the last failure.
const heldFor = 10 * time.Second

// heldLock is the lock of all requests for held keys, so that they use one connection. No key has this text.
const heldLock = "\x00held"

// holding is why and until when a key counts as held.
type holding struct {
	cause error
	until time.Time
}

// isHeld reports whether a key of the request is held. It is then the reason why the request fails, until there is a later one.
// The caller must hold q.mu.
func (q *queue) isHeld(r *Request) bool {
	return slices.ContainsFunc(r.keys, func(key string) bool {
		h, ok := q.held[key]
		if ok = ok && time.Now().Before(h.until); ok {
			r.lastErr = h.cause
		}
		return ok
	})
}

// hold records that a request has found that a key is held.
func (q *queue) hold(key string, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(q.held, func(_ string, h holding) bool { return !now.Before(h.until) })
	q.held[key] = holding{cause, now.Add(heldFor)}
}

// free records that keys are not held any more.
func (q *queue) free(keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		delete(q.held, key)
	}
}

// isContention reports whether another transaction caused an error that proves that nothing was applied.
func isContention(err error) bool {
	return errors.Is(err, storage.ErrContended) && errors.Is(err, storage.ErrNotApplied)
}
