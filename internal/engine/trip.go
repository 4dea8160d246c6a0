package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// trip takes a batch of requests to the store, in as many round trips as it takes to
// settle all of them. It has a slot of the queue.
type trip struct {
	queue   *queue
	fresh   []*Request // that no round trip may have stored
	parts   []*part    // whose last reply was lost
	settled []*Request // by the last round trip
	trouble error      // why the last round trip failed for some
	backoff backoff

	// What follows is memory that is used again.
	own       [1]*Request
	first     part
	firstUsed bool
	batches   []*storage.Batch
	updates   []*storage.Update
}

var trips = sync.Pool{New: func() any { return new(trip) }}

func newTrip(q *queue) *trip {
	t := trips.Get().(*trip)
	t.queue = q
	return t
}

// carries makes the trip one of these requests.
func (t *trip) carries(requests []*Request) *trip {
	t.fresh, t.parts, t.firstUsed, t.backoff = requests, nil, false, backoff{}
	return t
}

// end lets the memory of a trip be used again, unless requests are left in it.
func (t *trip) end() {
	if !t.isOver() {
		return
	}
	t.fresh, t.settled, t.own[0] = nil, nil, nil
	clear(t.first.requests[:cap(t.first.requests)])
	clear(t.first.members[:cap(t.first.members)])
	clear(t.first.last[:cap(t.first.last)])
	trips.Put(t)
}

// isOver reports whether all requests are settled.
func (t *trip) isOver() bool { return len(t.fresh) == 0 && len(t.parts) == 0 }

// run makes round trips until all requests are settled, or ctx ends.
func (t *trip) run(ctx context.Context) {
	for {
		one, cancel := context.WithDeadline(ctx, t.until())
		t.attempt(one)
		cancel()
		if t.isOver() || !t.again(ctx) {
			return
		}
	}
}

// resume goes on after a round trip that did not settle all requests.
func (t *trip) resume() {
	if t.again(context.Background()) {
		t.run(context.Background())
	}
}

// attempt makes one round trip, until ctx ends.
func (t *trip) attempt(ctx context.Context) {
	t.trouble, t.settled = nil, nil
	t.call(ctx)
	t.queue.landed(t)
}

// call calls the store. If the store panics, all callers do, and no goroutine of the engine.
func (t *trip) call(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			t.panicked(p)
		}
	}()
	if t.queue.engine.server != nil {
		t.runOnServer(ctx)
	} else {
		t.transact(ctx)
	}
}

func (t *trip) panicked(p any) {
	for _, r := range t.unsettled() {
		r.panicked, r.err = p, errPanicked
		t.settled = append(t.settled, r)
	}
	t.fresh, t.parts, t.trouble = nil, nil, nil
}

// again prepares the next round trip: it pauses after a failure, and drops the requests whose callers have left or have no more time.
// It reports whether any remain.
func (t *trip) again(ctx context.Context) bool {
	if t.trouble != nil {
		if err := t.backoff.wait(ctx); err != nil {
			t.giveUp(err)
			return false
		}
	}
	t.queue.resend(t)
	return !t.isOver()
}

// giveUp ends all requests when the context of their caller has ended.
func (t *trip) giveUp(ended error) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	for _, r := range t.unsettled() {
		t.queue.noteSpent(r)
		r.err = r.outcome(exhausted(r.trouble, ended))
	}
}

// until returns the deadline of the round trip.
func (t *trip) until() time.Time {
	if len(t.fresh) > 0 {
		return t.fresh[0].until
	}
	return t.parts[0].requests[0].until
}

// unsettled returns the requests that another round trip must settle.
func (t *trip) unsettled() []*Request {
	all := slices.Clone(t.fresh)
	for _, p := range t.parts {
		all = append(all, p.requests...)
	}
	return all
}

// fail takes in that a round trip has failed for requests. It reports whether another can help. lost means that the
// requests may have been stored.
func (t *trip) fail(requests []*Request, err error) (retry, lost bool) {
	lost = !errors.Is(err, storage.ErrNotApplied)
	retry = lost && !errors.Is(err, storage.ErrTorn) || isPassing(err)
	t.queue.mu.Lock() // callers who leave read trouble and lost
	for _, r := range requests {
		r.lost = r.lost || lost
		if r.trouble = err; !retry {
			r.err = r.outcome(err)
		}
	}
	t.queue.mu.Unlock()
	if retry {
		t.trouble = err
	} else {
		t.settled = append(t.settled, requests...)
	}
	return retry, lost
}

// retryAfter lets requests be tried again after a failure.
func (t *trip) retryAfter(requests []*Request, err error) {
	t.queue.mu.Lock() // callers who leave read trouble
	for _, r := range requests {
		r.trouble = err
	}
	t.queue.mu.Unlock()
	t.trouble = err
}

// outcome returns the error of a request that failed: that its outcome is unknown, if it may
// have been stored.
func (r *Request) outcome(err error) error {
	if r.lost && r.writes() && !errors.Is(err, storage.ErrOutcomeUnknown) {
		return unknown(err)
	}
	return err
}

// landed tells the callers of settled requests, and lets the others pause.
func (q *queue) landed(t *trip) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = t.trouble
	for _, r := range t.settled {
		q.settle(r)
	}
	if t.isOver() {
		return
	}
	for _, r := range t.unsettled() {
		if r.state != left {
			r.state = pausing
		}
	}
}

// resend marks the unsettled requests as sent again, and drops those that nobody waits for.
func (q *queue) resend(t *trip) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.fresh = q.stay(t.fresh)
	for _, p := range t.parts {
		p.requests = q.stay(p.requests)
	}
	t.parts = slices.DeleteFunc(t.parts, func(p *part) bool { return len(p.requests) == 0 })
	if !t.isOver() {
		setUntil(t.unsettled())
	}
}

// stay marks requests as sent, and returns those whose callers have not left and have time.
func (q *queue) stay(requests []*Request) []*Request {
	kept, now := requests[:0], time.Now()
	for _, r := range requests {
		switch {
		case r.state == left:
		case !now.Before(r.deadline):
			r.err = r.outcome(exhausted(r.trouble, context.DeadlineExceeded))
			q.settle(r)
		default:
			r.state = sent
			kept = append(kept, r)
		}
	}
	return kept
}

// settle tells the caller that the outcome of a request is known.
func (q *queue) settle(r *Request) {
	if r.state == left {
		return
	}
	r.state = done
	if r.awaited {
		r.awaited = false
		r.done <- struct{}{}
	}
}

// transact decides requests in one transaction.
func (t *trip) transact(ctx context.Context) {
	e, requests := t.queue.engine, t.fresh
	t.updates = t.updates[:0]
	for _, r := range requests {
		r.update = storage.Update{Keys: r.Keys, Decider: (*decider)(r)}
		t.updates = append(t.updates, &r.update)
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, t.updates...)
	received := time.Now()
	t.fresh = nil
	t.queue.note(began, err)
	if err != nil {
		t.failTransaction(requests, err)
		return
	}
	for _, r := range requests {
		r.err = r.update.Err
		e.updateCache(r, seen{r.update.Now, began, received})
	}
	t.settled = requests
}

// failTransaction takes in that a transaction has failed. If what it changed may have been stored, nothing
// can tell: the requests have no common version.
func (t *trip) failTransaction(requests []*Request, err error) {
	kept := requests[:0]
	for _, r := range requests {
		if errors.Is(err, storage.ErrNotApplied) || !r.changesAny() {
			kept = append(kept, r)
			continue
		}
		r.err = unknown(err)
		t.settled = append(t.settled, r)
	}
	if retry, _ := t.fail(kept, storage.NotApplied(err)); retry {
		t.fresh = kept
	}
}

// updateCache puts the states into the cache that a denied request saw. After a request that was
// allowed they are out of date: RetryAfter would be too short.
func (e *Engine) updateCache(r *Request, s seen) {
	if e.denials == nil || r.err != nil || r.panicked != nil || !r.allows() {
		return
	}
	if _, denied := r.Evaluator.Denied(); denied {
		e.denials.put(r, s)
	} else {
		e.denials.remove(r.Keys)
	}
}
