package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// batch is the requests that share round trips to the store, until all of them are settled.
type batch struct {
	queue    *queue
	requests []*Request // that are not settled
	failed   bool       // the last attempt failed for one of them
	backoff  backoff
}

// newBatch makes a batch of one request.
func newBatch(q *queue, r *Request) *batch {
	r.until = r.deadline
	return &batch{queue: q, requests: []*Request{r}}
}

// run makes round trips until all requests are settled.
func (b *batch) run(ctx context.Context) {
	b.attempt(ctx)
	b.repeat(ctx)
}

// repeat makes round trips after the first one until all requests are settled.
func (b *batch) repeat(ctx context.Context) {
	for b.prepareRetry(ctx) {
		b.attempt(ctx)
	}
}

// attempt makes one round trip.
func (b *batch) attempt(ctx context.Context) {
	if end, ok := ctx.Deadline(); !ok || end.After(b.requests[0].until) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, b.requests[0].until)
		defer cancel()
	}
	for _, r := range b.requests {
		r.settled, r.err, r.panicked = false, nil, nil
	}
	b.call(ctx)
	b.settle()
}

// call calls the store. A panic of the store is raised in the callers, and not in a goroutine of
// the engine.
func (b *batch) call(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			for _, r := range b.requests {
				r.panicked = p
				r.finish(errPanicked)
			}
		}
	}()
	switch first := b.requests[0]; {
	case first.bySwaps:
		b.swap(ctx, first)
	case b.queue.engine.server != nil:
		b.runOnServer(ctx)
	default:
		b.transact(ctx)
	}
}

// settle notifies the callers of the settled requests, and sets the state of the others.
func (b *batch) settle() {
	q := b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	b.failed, q.lastErr = false, nil
	b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool {
		if r.settled {
			if r.err != nil && r.err != errDeclined {
				r.err = r.outcome(r.err, r.lost)
			}
			r.notify()
			return true
		}
		if r.state != abandoned {
			r.state = pausing
		}
		if r.err != nil { // a call that is abandoned reads these
			r.lastErr, b.failed, q.lastErr = r.err, true, r.err
			r.lost = r.lost || !errors.Is(r.err, storage.ErrNotApplied)
		}
		return false
	})
}

// prepareRetry prepares the next round trip. It pauses after a failure. It drops abandoned requests and
// those whose deadline has passed, or all requests if ctx has ended. It reports whether any remain.
func (b *batch) prepareRetry(ctx context.Context) bool {
	var ended error
	if b.failed {
		ended = b.backoff.wait(ctx, b.requests[0].until)
	}
	q, now := b.queue, time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool {
		switch {
		case r.state == abandoned:
			return true
		case ended == nil && now.Before(r.deadline):
			r.begin()
			return false
		}
		q.recordTimeout(r)
		r.err = r.timeout(ended, r.lost)
		r.notify()
		return true
	})
	b.setUntil()
	return len(b.requests) > 0
}

// setUntil sets the deadline of the next round trip to the latest deadline of its requests.
func (b *batch) setUntil() {
	var until time.Time
	for _, r := range b.requests {
		if r.deadline.After(until) {
			until = r.deadline
		}
	}
	for _, r := range b.requests {
		r.until = until
	}
}

// transact decides the requests in one transaction.
func (b *batch) transact(ctx context.Context) {
	e := b.queue.engine
	updates := make([]*driver.Update, len(b.requests))
	for i, r := range b.requests {
		r.update = driver.Update{Keys: r.Keys, Decider: (*decider)(r)}
		updates[i] = &r.update
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, updates...)
	received := time.Now()
	b.queue.record(began, err)
	for _, r := range b.requests {
		switch {
		case err == nil:
			r.finish(r.update.Err)
			e.updateCache(r, clockReading{r.update.Now, began, received})
		case errors.Is(err, storage.ErrNotApplied) || !r.changesAny():
			r.fail(storage.NotApplied(err))
		default: // the records cannot show whether it was stored, because the requests have no common version
			r.finish(unknown(err))
		}
	}
}

// updateCache updates the denial cache after an evaluation. After a request that was allowed,
// cached states are out of date: their RetryAfter would be too short.
func (e *Engine) updateCache(r *Request, clock clockReading) {
	if e.denials == nil || r.err != nil || r.panicked != nil || !r.allows() {
		return
	}
	_, denied := r.Evaluator.Denied()
	e.denials.update(r, clock, denied)
}
