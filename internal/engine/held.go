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

// heldLane is the lane of all requests for held keys, so that they use one connection. No key has this text.
const heldLane = "\x00held"

// isHeld reports whether one of the keys is held. The caller must hold q.mu.
func (q *queue) isHeld(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		until, ok := q.held[key]
		return ok && time.Now().Before(until)
	})
}

// hold records that a request has found that keys are held.
func (q *queue) hold(r *Request, err error, keys ...string) {
	r.finish(ErrDeclined)
	q.mu.Lock()
	defer q.mu.Unlock()
	r.lastErr = err
	now := time.Now()
	maps.DeleteFunc(q.held, func(_ string, until time.Time) bool { return !now.Before(until) })
	for _, key := range keys {
		q.held[key] = now.Add(heldFor)
	}
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
