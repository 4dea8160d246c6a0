package engine

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
)

// queue holds the requests that wait for a batch to one server. If nothing is in flight to a driver.Server, the caller sends
// its own request. Otherwise the request waits for a sender, a goroutine that takes it to the store in a batch with others.
// There are up to MaxRoundTrips senders. One ends when no request waits. After a failure, a request pauses and waits again.
type queue struct {
	engine  *Engine
	breaker *breaker.Breaker

	mu       sync.Mutex
	inFlight int       // batches
	pausing  int       // requests that pause after a failure
	waiting  list.List // the requests that wait, in the order of arrival
	answered time.Time // when the last round trip ended that the store has answered
	warm     bool      // the last round trip was answered
	lastErr  error     // why the last round trip failed, if the store was unavailable

	held map[string]time.Time // until when a key counts as held
}

const (
	batchKeys = 64 // a batch takes requests until it has this many keys; a server does nothing else meanwhile
	// A caller sends its own request only if the server has answered within ownSendWithin. Without another goroutine,
	// that takes a third less time. But go-redis does not notice a cancelled context, so the caller would not return if
	// the server hangs. A caller never runs its own transaction, because SQLite does not notice that a context ends while
	// it writes to the disk.
	ownSendWithin = 10 * time.Millisecond
	// probeTime is the time that a probe gets at least. A new connection can take longer than the timeout of the callers.
	probeTime = time.Second
)

// The pauses after failures have full jitter: they are drawn between 0 and a bound that doubles
// with each failure.
const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

func newQueue(e *Engine) *queue {
	return &queue{engine: e, breaker: breaker.New(e.options.OpenAfter), held: make(map[string]time.Time)}
}

// decide returns when the request has its outcome, or when its deadline or context ends.
func (q *queue) decide(ctx context.Context, r *Request) error {
	switch sends, err := q.enter(r); {
	case err != nil:
		return err
	case sends:
		if q.sendOwn(ctx, r); r.done == nil {
			return r.err
		}
	}
	return q.await(ctx, r)
}

// enter lets the request wait for a sender. If sends is true, the caller must send it instead.
func (q *queue) enter(r *Request) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting := q.waiting.Len() + q.pausing; waiting >= q.engine.options.MaxQueue {
		return false, overloaded(waiting)
	} else if q.isHeld(r.keys) {
		return false, ErrDeclined
	}
	if q.engine.server != nil && q.inFlight == 0 && q.warm && time.Since(q.answered) < ownSendWithin {
		q.inFlight++
		return true, nil
	}
	q.add(r)
	return false, nil
}

func overloaded(waiting int) error { return fmt.Errorf("%w: %d", storage.ErrOverloaded, waiting) }

// add lets requests wait, and starts a sender if there may be another one. The caller must hold q.mu.
func (q *queue) add(requests ...*Request) {
	for _, r := range requests {
		if r.done == nil {
			r.done = make(chan struct{}, 1)
		}
		r.state, r.element = waiting, q.waiting.PushBack(r)
	}
	if q.inFlight < q.engine.options.MaxRoundTrips {
		q.inFlight++
		go q.send()
	}
}

// sendOwn makes one round trip for the caller's request, on the caller's goroutine. If the request needs another one, it waits
// for a sender.
func (q *queue) sendOwn(ctx context.Context, r *Request) {
	defer q.release()
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	r.state, r.until = sent, r.deadline
	q.attempt(ctx, []*Request{r})
}

// release ends the round trip of a caller. If requests wait, a sender takes its place.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		go q.send()
		return
	}
	q.inFlight--
}

// send is a sender: it sends the waiting requests, batch by batch, until none waits.
func (q *queue) send() {
	ended := false
	defer func() {
		if !ended { // a policy has called runtime.Goexit
			go q.send()
		}
	}()
	for {
		runtime.Gosched() // lets callers whose calls just returned join the batch
		requests, until := q.take()
		if len(requests) == 0 {
			ended = true
			return
		}
		q.sendUntil(until, requests)
	}
}

func (q *queue) sendUntil(until time.Time, requests []*Request) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	q.attempt(ctx, requests)
}

// take returns a batch of waiting requests and the deadline for its round trip. If no request waits, the sender must end.
func (q *queue) take() (requests []*Request, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for keys := 0; q.waiting.Len() > 0 && keys < batchKeys; {
		r := q.waiting.Remove(q.waiting.Front()).(*Request)
		if r.state = expired; now.Before(r.deadline) {
			keys += len(r.keys)
			requests = append(requests, r)
			if r.deadline.After(until) {
				until = r.deadline
			}
		}
	}
	for _, r := range requests {
		r.state, r.until = sent, until
	}
	if len(requests) == 0 {
		q.inFlight--
	}
	return requests, until
}

// attempt makes one round trip, and settles the requests or lets them wait for another one. A panic of the store reaches the
// callers, and not a goroutine of the engine.
func (q *queue) attempt(ctx context.Context, requests []*Request) {
	for _, r := range requests {
		r.settled, r.err, r.panicked = false, nil, nil
	}
	returned := false
	defer func() {
		p := recover()
		for _, r := range requests {
			switch {
			case p != nil:
				r.panicked = p
				r.finish(errPanicked)
			case !returned && !r.settled: // the evaluator of another request has called runtime.Goexit
				r.err = q.interrupted()
			}
		}
		q.settle(requests)
	}()
	if q.engine.server != nil {
		q.runOnServer(ctx, requests)
	} else {
		q.transact(ctx, requests)
	}
	returned = true
}

// interrupted returns the error of a request whose evaluation did not take place. A transaction has then stored nothing.
func (q *queue) interrupted() error {
	err := fmt.Errorf("%w: %w", storage.ErrUnavailable, goexit)
	if q.engine.server == nil {
		return storage.NotApplied(err)
	}
	return err
}

// settle notifies the callers of the settled requests. The others wait for another round trip after a pause.
func (q *queue) settle(requests []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var again []*Request
	failures := 0
	for _, r := range requests {
		if !r.settled {
			r.fail()
			if !r.settled && !time.Now().Before(r.deadline) {
				q.recordTimeout(r)
				r.finish(r.timeout(nil, r.lost))
			}
		} else if r.err != nil && r.err != ErrDeclined {
			r.err = r.outcome(r.err, r.lost)
		}
		switch {
		case r.state == abandoned:
		case r.settled:
			if r.state = done; r.done != nil {
				r.done <- struct{}{}
			}
		default:
			if r.done == nil { // the caller has sent it
				r.done = make(chan struct{}, 1)
			}
			r.state, failures = pausing, max(failures, r.failures)
			again = append(again, r)
		}
	}
	if len(again) > 0 {
		q.pausing += len(again)
		time.AfterFunc(pause(failures), func() { q.retry(again) })
	}
}

// pause returns how long to wait after that many failures.
func pause(failures int) time.Duration {
	return rand.N(min(firstPause<<min(failures-1, 20), longestPause))
}

// retry lets requests wait again. Their keys may be somewhere else now.
func (q *queue) retry(requests []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	requests = slices.DeleteFunc(requests, func(r *Request) bool { return r.state == abandoned })
	q.pausing -= len(requests)
	if q.engine.server != nil {
		for _, r := range requests {
			if _, slot, err := q.engine.server.Place(r.keys...); err == nil {
				r.slot = slot
			}
		}
	}
	if len(requests) > 0 {
		q.add(requests...)
	}
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
	return r.state == sent && !time.Now().Before(r.until)
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
	switch before {
	case waiting:
		q.waiting.Remove(r.element)
	case pausing:
		q.pausing--
	}
	inFlight := before == sent
	q.recordTimeout(r)
	if !inFlight { // it ends for the reason of the last round trip
		r.lastErr = cmp.Or(r.lastErr, q.lastErr)
	}
	return r.timeout(ended, r.lost || inFlight)
}
