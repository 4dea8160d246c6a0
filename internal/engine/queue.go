package engine

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
)

// queue holds the requests that wait for a round trip to one server.
//
// If nothing is in flight to a driver.Server, the caller sends its own request. Otherwise the request
// waits. A sender takes it to the store in a batch with others. A sender is a goroutine that has one
// of MaxRoundTrips slots; it ends when no request waits. A request that needs swaps takes no slot; it
// has a goroutine of its own.
type queue struct {
	engine  *Engine
	breaker *breaker.Breaker

	mu       sync.Mutex
	inFlight int       // round trips that have a slot
	slotless int       // requests that are sent without a slot
	waiting  list.List // the requests that wait, in the order of arrival
	answered time.Time // when the last round trip ended that the store has answered
	lastErr  error     // why the last round trip failed, if it did
}

const (
	batchKeys = 64 // a batch takes requests until it has this many keys; a server does nothing else meanwhile
	// A caller sends its own request only if the server has answered within ownSendWithin. That saves a
	// third of the time, because no other goroutine takes part. But go-redis does not notice a
	// cancelled context, so the caller of a server that hangs would not return. A caller never runs its
	// own transaction: a driver.Transactor such as SQLite cannot notice that a context ends while it
	// writes to the disk.
	ownSendWithin = 10 * time.Millisecond
)

func newQueue(e *Engine) *queue {
	return &queue{engine: e, breaker: breaker.New(e.options.OpenAfter)}
}

// decide returns when the request has its outcome, or when its deadline or context ends.
func (q *queue) decide(ctx context.Context, r *Request) error {
	switch sends, err := q.enter(r); {
	case err != nil:
		return err
	case sends:
		return q.sendOwn(ctx, r)
	}
	return q.await(ctx, r)
}

// enter lets the request wait for a sender. If sends is true, the caller has a slot and must send
// it instead.
func (q *queue) enter(r *Request) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.state, r.done = pausing, make(chan struct{}, 1)
	o := &q.engine.options
	switch free := q.inFlight < o.MaxRoundTrips; {
	case q.engine.onCaller:
		return true, nil
	case q.waiting.Len()+q.slotless >= o.MaxQueue:
		err = fmt.Errorf("%w: %d", storage.ErrOverloaded, q.waiting.Len()+q.slotless)
		return false, r.outcome(err, r.lost) // the server may have declined it after a lost reply
	case r.bySwaps:
		q.runWithoutSlot(&batch{queue: q, requests: []*Request{r}})
		return false, nil
	case q.engine.server != nil && q.inFlight == 0 && time.Since(q.answered) < ownSendWithin:
		q.inFlight++
		return true, nil
	case free:
		q.inFlight++
		go q.send()
	}
	r.state, r.element = waiting, q.waiting.PushBack(r)
	return false, nil
}

// sendOwn makes one round trip for the caller's request, on the caller's goroutine. If the request
// needs more round trips, a sender makes them. A store that must be called by the caller's
// goroutine has no senders.
func (q *queue) sendOwn(ctx context.Context, r *Request) error {
	b := &batch{queue: q, requests: []*Request{r}}
	if q.engine.onCaller {
		ctx, cancel := context.WithDeadline(ctx, r.deadline)
		defer cancel()
		for b.try(ctx) {
		}
		return r.err
	}
	if !b.try(ctx) {
		q.release()
		return r.err
	}
	go func() {
		q.repeat(b)
		q.send()
	}()
	return q.await(ctx, r)
}

// send is a sender: it sends the waiting requests, batch by batch, until none waits.
func (q *queue) send() {
	for {
		runtime.Gosched() // lets callers whose calls just returned join the batch
		b := q.take()
		if b == nil {
			return
		}
		if b.try(context.Background()) {
			q.repeat(b)
		}
	}
}

// repeat makes more round trips until all requests of a batch are settled. On a server with slots
// that can fail alone, such as a cluster, it gives the sender's slot back, because requests for
// other slots may succeed.
func (q *queue) repeat(b *batch) {
	if q.engine.placer == nil {
		for b.try(context.Background()) {
		}
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runWithoutSlot(b)
}

// runWithoutSlot starts a goroutine that runs a batch and counts its requests in slotless. The
// caller must hold q.mu.
func (q *queue) runWithoutSlot(b *batch) {
	n := len(b.requests)
	q.slotless += n
	go func() {
		for b.try(context.Background()) {
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.slotless -= n
	}()
}

// release gives back a slot, or leaves it to a sender if requests wait.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		go q.send()
		return
	}
	q.inFlight--
}

// take returns a batch of waiting requests. If none waits, it gives back the slot and returns nil.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 {
		q.inFlight--
		return nil
	}
	b := &batch{queue: q}
	for keys := 0; q.waiting.Len() > 0 && keys < batchKeys; {
		r := q.waiting.Remove(q.waiting.Front()).(*Request)
		r.state = pausing
		keys += len(r.keys)
		b.requests = append(b.requests, r)
	}
	return b
}

// await waits until the request has its outcome, its deadline is over or its context ends.
func (q *queue) await(ctx context.Context, r *Request) error {
	var expired <-chan time.Time
	if r.fromTimeout {
		expired = time.After(time.Until(r.deadline))
	}
	select {
	case <-r.done:
		return r.err
	case <-expired:
	case <-ctx.Done():
	}
	ended := ctx.Err()
	if ended != context.Canceled && q.isExpired(r) {
		select {
		case <-r.done:
		case <-time.After(expiryGrace):
		}
	}
	return q.abandon(r, ended)
}

// expiryGrace is how long a caller waits after its deadline for a round trip with the same deadline. The
// store's error may say that nothing was sent.
const expiryGrace = 20 * time.Millisecond

// isExpired reports whether the request is in a round trip whose deadline is over.
func (q *queue) isExpired(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.state == sent && !time.Now().Before(r.batch.until)
}

// abandon marks a request whose call ends without an outcome, and returns the error of the call. If
// the request has an outcome now, abandon returns that.
func (q *queue) abandon(r *Request, ended error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := r.state
	if before == done {
		return r.err
	}
	r.state = abandoned
	if before == waiting {
		q.waiting.Remove(r.element)
		r.state = done // no sender has it
	}
	return q.expire(r, ended, before == sent)
}

// expire returns the error of a request that ends without an outcome, and records a failure if the store
// did not answer. ended is the error of its context, nil if its deadline is over. A request that is not in
// flight, and may never have been sent, ends for the reason of the last round trip. The caller must hold q.mu.
func (q *queue) expire(r *Request, ended error, inFlight bool) error {
	q.recordTimeout(r)
	if !inFlight {
		r.lastErr = cmp.Or(r.lastErr, q.lastErr)
	}
	return r.timeout(ended, r.lost || inFlight)
}
