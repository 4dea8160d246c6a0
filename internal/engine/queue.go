package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// queue holds the requests that wait for a round trip to one server.
//
// A caller who finds a free slot takes it and sends its request. Otherwise the request
// waits, and a sender, which is a goroutine with a slot, takes it along with others. A sender ends
// when nothing waits.
type queue struct {
	engine  *Engine
	breaker breaker

	mu          sync.Mutex
	inFlight    int // slots taken
	first, last *Request
	waiting     int
	answered    time.Time // when the last round trip ended that the store has answered
	trouble     error     // why the last round trip failed, if it did
}

const (
	batchKeys     = 64   // in a batch: a server does nothing else meanwhile
	batchRequests = 1024 // in a batch
	// livelyFor is for how long after an answer a caller sends its request itself. That takes two
	// thirds of the time, but go-redis does not notice that a context is cancelled. So callers
	// leave it to a sender unless the server has just answered.
	livelyFor = 10 * time.Millisecond
)

func newQueue(e *Engine) *queue {
	return &queue{engine: e, breaker: breaker{openAfter: e.options.OpenAfter}}
}

// decide sees a request through, in a batch with others.
func (q *queue) decide(ctx context.Context, r *Request) error {
	if q.engine.onCaller {
		ctx, cancel := context.WithDeadline(ctx, r.deadline)
		defer cancel()
		r.state = sent
		t := newTrip(q)
		defer t.end()
		t.own[0], r.until = r, r.deadline
		t.carries(t.own[:]).run(ctx)
		return r.err
	}
	sends, err := q.enter(r)
	if err != nil {
		return err
	}
	if sends {
		return q.sendOwn(ctx, r)
	}
	return q.await(ctx, r)
}

// enter takes a slot for the request, or lets it wait.
func (q *queue) enter(r *Request) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := q.inFlight < q.engine.options.InFlight
	if free && time.Since(q.answered) < livelyFor {
		q.inFlight++
		r.state = sent
		return true, nil
	}
	if q.waiting >= q.engine.options.Queue {
		return false, fmt.Errorf("%w: %d", storage.ErrOverloaded, q.waiting)
	}
	r.expect()
	q.push(r)
	if free {
		q.inFlight++
		go q.send()
	}
	return false, nil
}

// expect makes the channel that tells the caller of the outcome.
func (r *Request) expect() {
	r.awaited, r.done = true, make(chan struct{}, 1)
}

// sendOwn makes one round trip for the request of the caller, on its goroutine. If that does not
// settle the request, a sender goes on.
func (q *queue) sendOwn(ctx context.Context, r *Request) error {
	if end, ok := ctx.Deadline(); !ok || end.After(r.deadline) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.deadline)
		defer cancel()
	}
	t := newTrip(q)
	t.own[0], r.until = r, r.deadline
	if t.carries(t.own[:]).attempt(ctx); t.isOver() {
		t.end()
		q.release()
		return r.err
	}
	r.expect()
	go func() {
		t.resume()
		t.end()
		q.send()
	}()
	return q.await(ctx, r)
}

// send serves the waiting requests, batch by batch, until there are none.
func (q *queue) send() {
	t := newTrip(q)
	var batch []*Request
	for batch = q.take(batch[:0]); len(batch) > 0; batch = q.take(batch[:0]) {
		t.carries(batch).run(context.Background())
	}
	t.end()
}

// release gives back a slot, or leaves it to a sender if requests wait.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first != nil {
		go q.send()
		return
	}
	q.inFlight--
}

// take takes the requests of the next batch out of the queue, in order, or gives back the slot.
func (q *queue) take(batch []*Request) []*Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := 0
	for q.first != nil && len(batch) < batchRequests && keys < batchKeys {
		r := q.first
		q.remove(r)
		r.state = sent
		keys += len(r.Keys)
		batch = append(batch, r)
	}
	if len(batch) == 0 {
		q.inFlight--
	}
	setUntil(batch)
	return batch
}

// setUntil sets the deadline of the next round trip: the last one of its requests.
func setUntil(requests []*Request) {
	var until time.Time
	for _, r := range requests {
		if r.deadline.After(until) {
			until = r.deadline
		}
	}
	for _, r := range requests {
		r.until = until
	}
}

// await waits for the outcome of a request for as long as the caller has time.
func (q *queue) await(ctx context.Context, r *Request) error {
	var expired <-chan time.Time
	if end, ok := ctx.Deadline(); !ok || end.After(r.deadline) {
		timer := time.NewTimer(time.Until(r.deadline))
		defer timer.Stop()
		expired = timer.C
	}
	ended := context.DeadlineExceeded
	select {
	case <-r.done:
		return r.err
	case <-expired:
	case <-ctx.Done():
		ended = ctx.Err()
	}
	if ended == context.DeadlineExceeded && q.isEnding(r) {
		timer := time.NewTimer(endingFor)
		defer timer.Stop()
		select {
		case <-r.done:
			return r.err
		case <-timer.C:
		}
	}
	return q.leave(ctx, r, ended)
}

// endingFor is how long a caller waits for a round trip that is broken off at the caller's own
// deadline: it may still tell that nothing was sent.
const endingFor = 20 * time.Millisecond

// isEnding reports whether the request is in a round trip whose deadline is over.
func (q *queue) isEnding(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.state == sent && !time.Now().Before(r.until)
}

// leave returns the error of a request whose caller waits no longer.
func (q *queue) leave(ctx context.Context, r *Request, ended error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := r.state
	if was == done {
		<-r.done
		return r.err
	}
	r.state = left
	q.noteSpent(r)
	switch {
	case was == waiting:
		q.remove(r)
		r.state = done
		return exhausted(q.trouble, ended)
	case (was == sent || r.lost) && r.writes():
		if ctx.Err() == nil {
			ended = fmt.Errorf("%w: no answer within the budget: %w", storage.ErrUnavailable, ended)
		}
		return unknown(withCause(r.trouble, ended))
	}
	return exhausted(r.trouble, ended)
}

// exhausted returns the error of a request that had no more time, or whose context ended. trouble
// is why it failed before, nil if nothing did.
func exhausted(trouble, ended error) error {
	return storage.NotApplied(withCause(trouble, ended))
}

// withCause adds to the end of a context why the last attempt failed, if it did.
func withCause(trouble, ended error) error {
	switch {
	case trouble == nil:
		return ended
	case errors.Is(trouble, ended):
		return trouble
	}
	return fmt.Errorf("%w: %w", trouble, ended)
}

// unknown returns the error of a request that may have been stored. Its cause may say that the last
// attempt was not applied, which proves nothing of those before.
func unknown(cause error) error {
	switch {
	case !errors.Is(cause, storage.ErrNotApplied):
		return fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, cause)
	case errors.Is(cause, storage.ErrUnavailable):
		return fmt.Errorf("%w: %w (%v)", storage.ErrOutcomeUnknown, storage.ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %v", storage.ErrOutcomeUnknown, cause)
}

func (q *queue) push(r *Request) {
	r.previous = q.last
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.waiting++
}

func (q *queue) remove(r *Request) {
	if r.previous == nil {
		q.first = r.next
	} else {
		r.previous.next = r.next
	}
	if r.next == nil {
		q.last = r.previous
	} else {
		r.next.previous = r.previous
	}
	r.next, r.previous = nil, nil
	q.waiting--
}
