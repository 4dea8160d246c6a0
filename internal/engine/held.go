package engine

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// A key is held if another transaction has its lock for longer than a server waits in a batch. The requests for such a key must
// not delay others, so they are not sent in batches. They wait for each other instead, and one at a time is sent alone.

// heldFor is how long a key counts as held after the last failure.
const heldFor = 10 * time.Second

var (
	errHeld     = errors.New("engine: another transaction holds a key")
	errReleased = errors.New("engine: a key may not be held any more")
)

// isHeld reports whether one of the keys is held.
func (q *queue) isHeld(keys []string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		if until, ok := q.held[key]; ok && time.Now().Before(until) {
			return true
		}
	}
	return false
}

// hold records that a request has found that keys are held.
func (q *queue) hold(r *Request, err error, keys ...string) {
	r.finish(errHeld)
	q.mu.Lock()
	defer q.mu.Unlock()
	r.lastErr = err
	for key, until := range q.held {
		if !time.Now().Before(until) {
			delete(q.held, key)
		}
	}
	for _, key := range keys {
		q.held[key] = time.Now().Add(heldFor)
	}
}

// decide returns when the request has its outcome, or when its deadline or context ends.
func (q *queue) decide(ctx context.Context, r *Request) error {
	err := errReleased
	for err == errReleased {
		if err = errHeld; !q.isHeld(r.keys) {
			err = q.decideInBatch(ctx, r)
		}
		if err == errHeld {
			err = q.sendAlone(ctx, r)
		}
	}
	return err
}

// sendAlone makes one round trip for a request when no other request for its keys is sent alone.
func (q *queue) sendAlone(ctx context.Context, r *Request) error {
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	leave, err := q.engine.lanes.enter(ctx, r.keys, q.engine.options.MaxQueue)
	if err != nil {
		return r.outcome(err, r.lost)
	}
	if leave == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		return r.timeout(ended(ctx), r.lost)
	}
	defer leave()
	if !q.isHeld(r.keys) {
		return errReleased
	}
	q.mu.Lock()
	r.state, r.until, r.done = sent, r.deadline, nil
	q.mu.Unlock()
	q.attempt(ctx, []*Request{r})
	if r.done != nil { // it has failed for another reason, and waits for a sender
		return q.await(ctx, r)
	}
	if r.err == errHeld {
		sleep(ctx, pause(1))
		return errReleased
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range r.keys {
		delete(q.held, key)
	}
	return r.err
}

// isContention reports whether another transaction caused an error that proves that nothing was applied.
func isContention(err error) bool {
	return errors.Is(err, storage.ErrContended) && errors.Is(err, storage.ErrNotApplied)
}
