package engine

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/internal/engine/keylock"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
)

// queue holds the requests that wait for a batch to one server. If nothing is in flight to a driver.Server, the caller sends
// its own request. Otherwise the request waits for a sender, a goroutine that takes it to the store in a batch with others.
// There are up to MaxRoundTrips senders. One ends when no request waits.
type queue struct {
	engine *Engine
	locks  keylock.Locks // of keys that swaps decide, and of probes

	mu       sync.Mutex
	breaker  *breaker.Breaker
	inFlight int       // batches
	waiting  list.List // the requests that wait for a batch, in the order of arrival
	others   int       // the calls that wait for another call, or pause after a failure
	warm     bool      // the last round trip was answered
	lastErr  error     // why the last round trip failed, if the store was unavailable

	held   map[string]time.Time // until when keys count as held
	probes atomic.Int32         // of held keys, in progress or waiting for probeLock
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

// repeat makes attempts by try until a request has its outcome, or ctx or the deadline of the request ends.
func (q *queue) repeat(ctx context.Context, r *Request, try func(ctx context.Context, r *Request) error) error {
	retry, err := r.conclude(try(ctx, r))
	if !retry {
		return err
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	for ; retry; retry, err = r.conclude(try(ctx, r)) {
		if r.FailFast {
			if err := q.admit(r.keys[0]); err != nil {
				return r.outcome(err)
			}
		}
		q.addOthers(1)
		retrywait.Pause(ctx, pause(r.failures))
		q.addOthers(-1)
		if ctx.Err() != nil {
			return q.timeout(ctx, r, false)
		}
		if q.engine.server != nil { // the keys may be somewhere else now
			if _, slot, err := q.engine.server.Place(r.keys...); err == nil {
				r.slot = slot
			}
		}
	}
	return err
}

// pause returns how long to wait after that many failures.
func pause(failures int32) time.Duration {
	return rand.N(min(firstPause<<min(failures-1, 20), longestPause))
}

// timeout returns the error of a request whose ctx has ended. A wait for other calls or transactions is contention if the store has
// answered since the call began. If the store did not answer within the timeout, it is a failure for the circuit breaker.
func (q *queue) timeout(ctx context.Context, r *Request, inFlight bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited := r.waited > r.deadline.Sub(r.began)/2 // most of the time
	answered := !q.breaker.Answered().Before(r.began)
	switch timeout := q.engine.options.Timeout; {
	case waited && answered && q.lastErr == nil && (r.lastErr == nil || breaker.IsTimeout(r.lastErr)):
		if r.lastErr = errWaited; q.heldKey(r) != "" {
			r.lastErr = errHeld
		}
	case !waited && !answered && time.Since(r.began) >= timeout:
		cause := fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, timeout)
		if last := cmp.Or(r.lastErr, q.lastErr); isOutage(last) && !errors.Is(last, context.Canceled) {
			cause = last
		}
		q.breaker.Failed(r.began, cause)
	}
	if !inFlight { // it ends for the reason of the last round trip
		r.lastErr = cmp.Or(r.lastErr, q.lastErr)
	}
	return r.timeout(ctx, r.lost || inFlight)
}

var errWaited = fmt.Errorf("%w: other calls with the same key took most of the time", storage.ErrContended)

// batch makes one attempt in a batch. It returns when the attempt has ended, or ctx or the deadline of the request.
func (q *queue) batch(ctx context.Context, r *Request) error {
	switch sends, err := q.enter(r); {
	case err == errHeld:
		ctx, cancel := r.within(ctx)
		defer cancel()
		return q.tryHeld(ctx, r)
	case err != nil:
		return err
	case sends:
		ctx, cancel := r.within(ctx)
		defer cancel()
		defer q.release()
		q.send(ctx, []*Request{r})
		return r.err
	case q.waitFor(ctx, r):
		return r.err
	}
	if ctx.Err() == nil { // this stays a timeout if ctx ends below
		ctx = context.WithoutCancel(ctx)
	}
	inFlight, expired := q.leave(r)
	if expired && ctx.Err() != context.Canceled {
		select {
		case <-r.done:
		case <-time.After(expiryGrace):
		}
	}
	select {
	case <-r.done:
		return r.err
	default:
		return final{q.timeout(ctx, r, inFlight)}
	}
}

// waitFor waits until the batch of a request has ended, and reports whether it has before ctx or the deadline of the request.
func (q *queue) waitFor(ctx context.Context, r *Request) bool {
	var timeout <-chan time.Time
	if !r.endsWith(ctx) {
		timer := time.NewTimer(time.Until(r.deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
	case <-timeout:
	}
	return false
}

// expiryGrace is how long a caller waits after its deadline for a round trip with the same deadline. The
// store's error may say that nothing was sent.
const expiryGrace = 20 * time.Millisecond

// leave ends the wait of a request for a round trip. inFlight means that one uses the request, and expired that the deadline of
// this round trip is over.
func (q *queue) leave(r *Request) (inFlight, expired bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Remove(r.element)
	inFlight = !r.until.IsZero()
	return inFlight, inFlight && !time.Now().Before(r.until)
}

// enter lets the request wait for a sender. If sends is true, the caller must send it instead.
func (q *queue) enter(r *Request) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !r.admitted {
		if err := q.overload(); err != nil {
			return false, final{err}
		}
	}
	if q.heldKey(r) != "" {
		return false, errHeld
	}
	r.admitted = true
	if q.engine.server != nil && q.inFlight == 0 && q.warm && time.Since(q.breaker.Answered()) < ownSendWithin {
		q.inFlight++
		return true, nil
	}
	r.done, r.until, r.element = make(chan struct{}), time.Time{}, q.waiting.PushBack(r)
	if q.inFlight < q.engine.options.MaxRoundTrips {
		q.inFlight++
		go q.runSender()
	}
	return false, nil
}

// await waits until done has a value or is closed by another call, or until ctx ends. Unless the request is admitted already, await
// returns an error if the request would have to wait while MaxQueue calls wait.
func (q *queue) await(ctx context.Context, r *Request, done <-chan struct{}) (err error) {
	select {
	case <-done:
		return nil
	default:
	}
	began := time.Now()
	q.mu.Lock()
	if !r.admitted {
		err = q.overload()
	}
	if err == nil {
		q.others++
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		q.addOthers(-1)
		r.waited += time.Since(began)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lock gets the locks of keys for a request, unless ctx ends or too many calls wait.
func (q *queue) lock(ctx context.Context, r *Request, keys ...string) (unlock func(), err error) {
	unlock, err = q.locks.Lock(keys, func(free <-chan struct{}) error { return q.await(ctx, r, free) })
	r.admitted = true
	if ctx.Err() == nil {
		return unlock, err
	}
	if err == nil {
		unlock()
	}
	return nil, q.timeout(ctx, r, false)
}

// checkOverload returns an error if MaxQueue calls wait.
func (q *queue) checkOverload() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overload()
}

func (q *queue) addOthers(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others += n
}

// overload returns an error if MaxQueue calls wait. The caller must hold q.mu.
func (q *queue) overload() error {
	if waiting := q.waiting.Len() + q.others; waiting >= q.engine.options.MaxQueue {
		return fmt.Errorf("%w: %d", storage.ErrOverloaded, waiting)
	}
	return nil
}

// release ends the round trip of a caller. If requests wait, a sender takes its place.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		go q.runSender()
		return
	}
	q.inFlight--
}

// runSender is a sender: it sends the waiting requests, batch by batch, until none waits.
func (q *queue) runSender() {
	for q.sendWaiting() {
	}
}

// sendWaiting sends a batch of waiting requests. It returns false if no request waits.
func (q *queue) sendWaiting() (sent bool) {
	runtime.Gosched() // lets callers whose calls just returned join the batch
	requests, until := q.take()
	if len(requests) == 0 {
		return false
	}
	defer func() {
		for _, r := range requests {
			close(r.done)
		}
		if !sent { // a policy has called runtime.Goexit
			go q.runSender()
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	q.send(ctx, requests)
	return true
}

// take returns a batch of waiting requests and the deadline for its round trip. The callers of requests whose deadline is over
// are about to leave.
func (q *queue) take() (requests []*Request, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for keys := 0; q.waiting.Len() > 0 && keys < batchKeys; {
		r := q.waiting.Remove(q.waiting.Front()).(*Request)
		switch {
		case q.heldKey(r) != "":
			r.err = errHeld
			close(r.done)
		case now.Before(r.deadline):
			keys += len(r.keys)
			requests = append(requests, r)
			if r.deadline.After(until) {
				until = r.deadline
			}
		}
	}
	for _, r := range requests {
		r.until = until
	}
	if len(requests) == 0 {
		q.inFlight--
	}
	return requests, until
}

// send makes one round trip, and sets the errors of the requests. A panic of the store reaches the callers, and not a goroutine
// of the engine.
func (q *queue) send(ctx context.Context, requests []*Request) {
	for _, r := range requests {
		r.err = errInterrupted // unless it gets another error
	}
	defer func() {
		if p := recover(); p != nil {
			for _, r := range requests {
				r.finish(&panicked{p})
			}
		}
	}()
	if q.engine.server != nil {
		q.runOnServer(ctx, requests)
	} else {
		q.transact(ctx, requests)
	}
}

// errInterrupted is the error of a request if the evaluator of another one has called runtime.Goexit.
var errInterrupted = fmt.Errorf("%w: %w", storage.ErrUnavailable, goexit)
