package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// trip takes a batch of requests to the store, in as many round trips as it takes to
// settle all of them.
type trip struct {
	queue    *queue
	requests []*Request // that are not settled
	failed   bool       // an attempt failed for one of them
	backoff  backoff
}

// newTrip makes a trip of one request.
func newTrip(q *queue, r *Request) *trip {
	r.until = r.deadline
	return &trip{queue: q, requests: []*Request{r}}
}

// run makes round trips until all requests are settled.
func (t *trip) run(ctx context.Context) {
	t.attempt(ctx)
	t.repeat(ctx)
}

// repeat goes on after an attempt until all requests are settled.
func (t *trip) repeat(ctx context.Context) {
	for t.again(ctx) {
		t.attempt(ctx)
	}
}

// attempt makes one round trip.
func (t *trip) attempt(ctx context.Context) {
	if end, ok := ctx.Deadline(); !ok || end.After(t.requests[0].until) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, t.requests[0].until)
		defer cancel()
	}
	for _, r := range t.requests {
		r.settled, r.err, r.panicked = false, nil, nil
	}
	t.call(ctx)
	t.settle()
}

// call calls the store. If the store panics, all callers do, and no goroutine of the engine.
func (t *trip) call(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			for _, r := range t.requests {
				r.panicked = p
				r.finish(errPanicked)
			}
		}
	}()
	switch first := t.requests[0]; {
	case first.bySwaps:
		t.swap(ctx, first)
	case t.queue.engine.server != nil:
		t.runOnServer(ctx)
	default:
		t.transact(ctx)
	}
}

// settle tells the callers of the settled requests, and lets the others pause.
func (t *trip) settle() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	t.failed, q.trouble = false, nil
	t.requests = slices.DeleteFunc(t.requests, func(r *Request) bool {
		if r.settled {
			if r.err != nil && r.err != errDeclined {
				r.err = r.outcome(r.err, r.lost)
			}
			r.tell()
			return true
		}
		if r.state != left {
			r.state = pausing
		}
		if r.err != nil { // callers who leave read these
			r.trouble, t.failed, q.trouble = r.err, true, r.err
			r.lost = r.lost || !errors.Is(r.err, storage.ErrNotApplied)
		}
		return false
	})
}

// again prepares the next round trip: it pauses after a failure, and drops the requests whose
// callers have left, have no more time, or whose context ctx has ended. It reports whether any remain.
func (t *trip) again(ctx context.Context) bool {
	var ended error
	if t.failed {
		ended = t.backoff.wait(ctx, t.requests[0].until)
	}
	q, now := t.queue, time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	t.requests = slices.DeleteFunc(t.requests, func(r *Request) bool {
		switch {
		case r.state == left:
			return true
		case ended == nil && now.Before(r.deadline):
			r.begin()
			return false
		}
		q.noteSpent(r)
		r.err = r.timeout(r.end(ended), r.lost)
		r.tell()
		return true
	})
	t.setUntil()
	return len(t.requests) > 0
}

// setUntil sets the deadline of the next round trip: the last one of its requests.
func (t *trip) setUntil() {
	var until time.Time
	for _, r := range t.requests {
		if r.deadline.After(until) {
			until = r.deadline
		}
	}
	for _, r := range t.requests {
		r.until = until
	}
}

// transact decides the requests in one transaction.
func (t *trip) transact(ctx context.Context) {
	e := t.queue.engine
	updates := make([]*storage.Update, len(t.requests))
	for i, r := range t.requests {
		r.update = storage.Update{Keys: r.Keys, Decider: (*decider)(r)}
		updates[i] = &r.update
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, updates...)
	received := time.Now()
	t.queue.note(began, err)
	for _, r := range t.requests {
		switch {
		case err == nil:
			r.finish(r.update.Err)
			e.updateCache(r, seen{r.update.Now, began, received})
		case errors.Is(err, storage.ErrNotApplied) || !r.changesAny():
			r.fail(storage.NotApplied(err))
		default: // nothing can tell whether it was stored: the requests have no common version
			r.finish(unknown(err))
		}
	}
}

// updateCache puts the states into the cache that a denied request saw. After a request that was
// allowed they are out of date: RetryAfter would be too short.
func (e *Engine) updateCache(r *Request, s seen) {
	if e.denials == nil || r.err != nil || r.panicked != nil || !r.allows() {
		return
	}
	_, denied := r.Evaluator.Denied()
	e.denials.update(r, s, denied)
}
