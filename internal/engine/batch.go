package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// batch is the requests that share round trips to the store, until all of them are settled.
type batch struct {
	queue    *queue
	requests []*Request // that are not settled
	until    time.Time  // the deadline of the round trip: the latest of the requests; guarded by queue.mu
	failed   bool       // the last attempt failed for one of them
	failures int
}

// The pauses after failures have full jitter: they are drawn between 0 and a bound that doubles
// with each failure.
const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

// try makes one round trip. It reports whether there are requests that need another one.
func (b *batch) try(ctx context.Context) bool {
	if b.prepare(ctx) {
		ctx, cancel := context.WithDeadline(ctx, b.until)
		defer cancel()
		b.call(ctx)
		b.settle()
	}
	return len(b.requests) > 0
}

// prepare prepares the next round trip. It pauses after a failure. It drops abandoned requests and
// those whose deadline has passed, or all requests if ctx has ended. It reports whether any remain.
func (b *batch) prepare(ctx context.Context) bool {
	var ended error
	if b.failed {
		ended = b.pause(ctx)
	}
	q, now := b.queue, time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	b.until = time.Time{}
	b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool {
		switch {
		case r.state == abandoned:
			return true
		case ended != nil || !now.Before(r.deadline):
			r.err = q.expire(r, ended, false)
			r.notify()
			return true
		}
		r.begin(b)
		if r.deadline.After(b.until) {
			b.until = r.deadline
		}
		return false
	})
	return len(b.requests) > 0
}

// pause waits after a failure, but not beyond the deadline of the batch. It returns the context's
// error if that ends first.
func (b *batch) pause(ctx context.Context) error {
	longest := min(firstPause<<min(b.failures, 20), longestPause)
	b.failures++
	select {
	case <-time.After(min(rand.N(longest), time.Until(b.until))):
	case <-ctx.Done():
	}
	return ctx.Err()
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
			if r.lastErr == nil || !breaker.IsTimeout(r.err) {
				r.lastErr = r.err
			}
			b.failed, q.lastErr = true, r.lastErr
			r.lost = r.lost || !errors.Is(r.err, storage.ErrNotApplied)
		}
		return false
	})
}

// transact decides the requests in one transaction.
func (b *batch) transact(ctx context.Context) {
	e := b.queue.engine
	updates := make([]*driver.Update, len(b.requests))
	for i, r := range b.requests {
		r.update = driver.Update{Items: r.Items, Decide: r.inTransaction}
		updates[i] = &r.update
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, updates...)
	received := time.Now()
	b.queue.record(began, err)
	isWrite := func(i driver.Item) bool { return i.Next.Verb != driver.Keep }
	for _, r := range b.requests {
		switch {
		case err == nil:
			r.finish(r.evaluated)
			e.updateCache(r, clockReading{r.now, began, received})
		case errors.Is(err, storage.ErrNotApplied) || !slices.ContainsFunc(r.Items, isWrite):
			r.fail(storage.NotApplied(err))
		default: // the records cannot show whether it was stored, because the requests have no common version
			r.finish(unknown(err))
		}
	}
}

// inTransaction decides a request in a transaction. The memory of the records is the store's. So inTransaction keeps copies of
// the states for the denial cache, which reads them after the transaction.
func (r *Request) inTransaction(now time.Time) (ok bool) {
	r.now = now
	_, r.evaluated = r.evaluate(now)
	if _, denied := r.Evaluator.Denied(); denied && r.evaluated == nil {
		for i := range r.Items {
			r.Items[i].Found = cloneRecord(r.Items[i].Found)
		}
	}
	return r.evaluated == nil
}
