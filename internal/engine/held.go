package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// A key is held if another transaction has its lock for longer than a batch waits. Its requests must not delay others. So they
// wait outside of the batches, until a probe gets the lock. The requests of one key make its probes in turn. All probes use
// one connection.

const (
	heldFor   = 10 * time.Second       // how long a key counts as held after the last failure
	probesFor = 250 * time.Millisecond // how long the probes of all held keys wait together
	probeMin  = 5 * time.Millisecond   // how long a probe waits at least
)

// The owner of the lock heldPrefix+KEY probes the key while it also has the lock probeLock. No key begins like these.
const (
	heldPrefix = "\x00held"
	probeLock  = "\x00probe"
)

var errHeld = fmt.Errorf("%w: another transaction held the lock of a key", storage.ErrContended)

// hold records that another transaction holds a key.
func (q *queue) hold(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(q.held, func(_ string, until time.Time) bool { return !now.Before(until) })
	q.held[key] = now.Add(heldFor)
}

// free records that a key is not held any more.
func (q *queue) free(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, key)
}

// heldKey returns a held key of the request, or "". The caller must hold q.mu.
func (q *queue) heldKey(r *Request) string {
	for _, key := range r.keys {
		if until, ok := q.held[key]; ok && time.Now().Before(until) {
			return key
		}
	}
	return ""
}

// tryHeld makes one attempt for a request with a held key. A denial needs no lock. Any other request waits until the key is
// free.
func (q *queue) tryHeld(ctx context.Context, c *call) error {
	key := q.firstHeld(c.Request)
	if key == "" {
		return errHeld // the batches can decide it again
	}
	unlock, err := q.lock(ctx, c, heldPrefix+key)
	if err != nil {
		return final{err}
	}
	defer unlock()
	if q.firstHeld(c.Request) != key { // another request has found that the key is free
		return errHeld
	}
	q.probes.Add(1)
	defer q.probes.Add(-1)
	endProbe, err := q.lock(ctx, c, probeLock)
	if err != nil {
		return final{err}
	}
	defer endProbe()
	began := time.Now()
	if swaps, err := q.load(ctx, c); len(swaps) == 0 {
		return err
	}
	return q.probeHeld(ctx, key, time.Since(began))
}

func (q *queue) firstHeld(r *Request) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.heldKey(r)
}

// probeHeld waits for the lock of a held key. It returns an error also if it got the lock: the request must be sent again. A probe of
// a free key takes a roundTrip.
func (q *queue) probeHeld(ctx context.Context, key string, roundTrip time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*roundTrip+max(probesFor/time.Duration(q.probes.Load()), probeMin))
	defer cancel()
	began := time.Now()
	_, _, err := q.engine.store.CompareAndSwap(ctx, storage.Swap{Key: key}) // changes nothing, but waits for the lock
	switch q.record(began, err, true); {
	case err == nil:
		q.free(key)
	case isContention(err):
		q.hold(key)
	case ctx.Err() == nil:
		return storage.NotApplied(err)
	}
	return errHeld
}

// isContention reports whether another transaction caused an error that proves that nothing was applied.
func isContention(err error) bool {
	return errors.Is(err, storage.ErrContended) && errors.Is(err, storage.ErrNotApplied)
}
