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

// queue holds the attempts that wait for a batch to one server. If nothing is in flight to a driver.Server, the caller sends
// its own request. Otherwise its attempt waits for a sender, a goroutine that takes it to the store in a batch with others.
// There are up to MaxRoundTrips senders. One ends when no attempt waits.
type queue struct {
	engine *Engine
	locks  keylock.Locks // of keys that swaps decide, and of probes

	mu       sync.Mutex
	breaker  *breaker.Breaker
	inFlight int       // batches
	waiting  list.List // the attempts that wait for a batch, in the order of arrival
	others   int       // the calls that wait for another call, or pause after a failure
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

// repeat makes attempts by try until a call has its outcome, or ctx ends.
func (q *queue) repeat(ctx context.Context, c *call, try func(ctx context.Context, c *call) error) error {
	for {
		c.clearNext() // of an earlier evaluation
		retry, err := c.conclude(try(ctx, c))
		if !retry {
			return err
		}
		if c.FailFast {
			q.mu.Lock()
			err := q.checkOutage(c.keys[0])
			q.mu.Unlock()
			if err != nil {
				return c.outcome(err)
			}
		}
		q.addOthers(1)
		retrywait.Pause(ctx, pause(c.failures))
		q.addOthers(-1)
		if ctx.Err() != nil {
			return q.timeout(ctx, c, false)
		}
		if q.engine.server != nil { // the store may divide batches in another way now
			if _, slot, err := q.engine.server.Place(c.keys...); err == nil {
				c.slot = slot
			}
		}
	}
}

// pause returns how long to wait after that many failures.
func pause(failures int32) time.Duration {
	return rand.N(min(firstPause<<min(failures-1, 20), longestPause))
}

// timeout returns the error of a call whose ctx has ended. A wait for other calls or transactions is contention if the store has
// answered since the call began. If the store did not answer within the timeout, it is a failure for the circuit breaker.
func (q *queue) timeout(ctx context.Context, c *call, inFlight bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited := c.waited > c.deadline.Sub(c.began)/2 // most of the time
	answered := !q.breaker.Answered().Before(c.began)
	switch timeout := q.engine.options.Timeout; {
	case waited && answered && q.lastErr == nil && (c.lastErr == nil || breaker.IsTimeout(c.lastErr)):
		if c.lastErr = errWaited; q.heldKey(c.Request) != "" {
			c.lastErr = errHeld
		}
	case !waited && !answered && time.Since(c.began) >= timeout:
		cause := fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, timeout)
		if last := cmp.Or(c.lastErr, q.lastErr); isOutage(last) && !errors.Is(last, context.Canceled) {
			cause = last
		}
		q.breaker.Failed(c.began, cause)
	}
	if !inFlight { // it ends for the reason of the last round trip
		c.lastErr = cmp.Or(c.lastErr, q.lastErr)
	}
	return c.timeout(ctx, c.lost || inFlight)
}

var errWaited = fmt.Errorf("%w: other calls with the same key took most of the time", storage.ErrContended)

// batch makes one attempt in a batch. It returns when the attempt or ctx has ended.
func (q *queue) batch(ctx context.Context, c *call) error {
	a := &attempt{Request: c.Request, slot: c.slot, deadline: c.deadline}
	switch sends, err := q.enter(c, a); {
	case err == errHeld:
		return q.tryHeld(ctx, c)
	case err != nil:
		return err
	case sends:
		defer q.release()
		q.send(ctx, []*attempt{a})
		return a.err
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	inFlight, expired := q.leave(a)
	if expired && ctx.Err() != context.Canceled {
		select {
		case <-a.done:
		case <-time.After(expiryGrace):
		}
	}
	select {
	case <-a.done:
		return a.err
	default:
		return final{q.timeout(ctx, c, inFlight)}
	}
}

// expiryGrace is how long a caller waits after its deadline for a round trip with the same deadline. The
// store's error may say that nothing was sent.
const expiryGrace = 20 * time.Millisecond

// leave ends the wait of a caller for an attempt. inFlight means that a round trip uses the attempt, and expired that the deadline
// of this round trip is over.
func (q *queue) leave(a *attempt) (inFlight, expired bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Remove(a.element)
	inFlight = !a.until.IsZero()
	return inFlight, inFlight && !time.Now().Before(a.until)
}

// enter lets an attempt wait for a sender. If sends is true, the caller must send it instead.
func (q *queue) enter(c *call, a *attempt) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.admit(c); err != nil {
		return false, final{err}
	}
	if q.heldKey(c.Request) != "" {
		return false, errHeld
	}
	c.admitted = true
	if q.engine.server != nil && q.inFlight == 0 && q.lastErr == nil && time.Since(q.breaker.Answered()) < ownSendWithin {
		q.inFlight++
		return true, nil
	}
	a.done, a.element = make(chan struct{}), q.waiting.PushBack(a)
	if q.inFlight < q.engine.options.MaxRoundTrips {
		q.inFlight++
		go q.runSender()
	}
	return false, nil
}

// admit refuses a call while the circuit breaker is open or MaxQueue calls wait, unless it was admitted before. The caller of admit
// must hold q.mu.
func (q *queue) admit(c *call) error {
	if c.admitted {
		return nil
	}
	return cmp.Or(q.checkOutage(c.keys[0]), q.checkOverload())
}

// await waits until done has a value or is closed by another call, or until ctx ends. Unless the call is admitted already, await
// returns an error if it would have to wait while MaxQueue calls wait.
func (q *queue) await(ctx context.Context, c *call, done <-chan struct{}) (err error) {
	select {
	case <-done:
		return nil
	default:
	}
	began := time.Now()
	q.mu.Lock()
	if !c.admitted {
		err = q.checkOverload()
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
		c.waited += time.Since(began)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lock gets the locks of keys for a call, unless ctx ends or too many calls wait.
func (q *queue) lock(ctx context.Context, c *call, keys ...string) (unlock func(), err error) {
	unlock, err = q.locks.Lock(keys, func(free <-chan struct{}) error { return q.await(ctx, c, free) })
	c.admitted = true
	if ctx.Err() == nil {
		return unlock, err
	}
	if err == nil {
		unlock()
	}
	return nil, q.timeout(ctx, c, false)
}

func (q *queue) addOthers(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others += n
}

// checkOverload returns an error if MaxQueue calls wait. The caller must hold q.mu.
func (q *queue) checkOverload() error {
	if waiting := q.waiting.Len() + q.others; waiting >= q.engine.options.MaxQueue {
		return fmt.Errorf("%w: %d", storage.ErrOverloaded, waiting)
	}
	return nil
}

// release ends a round trip of a caller, or a sender. If attempts wait, a new sender takes its place.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		go q.runSender()
		return
	}
	q.inFlight--
}

// runSender is a sender: it sends the waiting attempts, batch by batch, until none waits.
func (q *queue) runSender() {
	defer q.release() // also if an evaluator has called runtime.Goexit
	for {
		runtime.Gosched() // lets callers whose calls just returned join the batch
		attempts, until := q.take()
		if len(attempts) == 0 {
			return
		}
		q.sendUntil(until, attempts)
	}
}

// sendUntil sends a batch of a sender.
func (q *queue) sendUntil(deadline time.Time, attempts []*attempt) {
	defer func() {
		for _, a := range attempts {
			close(a.done)
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	q.send(ctx, attempts)
}

// take returns a batch of waiting attempts and the deadline for its round trip. The callers of attempts whose deadline is over
// are about to leave.
func (q *queue) take() (attempts []*attempt, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for keys := 0; q.waiting.Len() > 0 && keys < batchKeys; {
		a := q.waiting.Remove(q.waiting.Front()).(*attempt)
		switch {
		case q.heldKey(a.Request) != "":
			a.err = errHeld
			close(a.done)
		case now.Before(a.deadline):
			keys += len(a.keys)
			attempts = append(attempts, a)
			if a.deadline.After(until) {
				until = a.deadline
			}
		}
	}
	for _, a := range attempts {
		a.until = until
	}
	return attempts, until
}

// send makes one round trip, and sets the errors of the attempts. A panic of the store reaches the callers, and not a goroutine
// of the engine.
func (q *queue) send(ctx context.Context, attempts []*attempt) {
	for _, a := range attempts {
		a.err = errInterrupted // unless it gets another error
	}
	defer func() {
		if p := recover(); p != nil {
			for _, a := range attempts {
				a.finish(&panicked{p})
			}
		}
	}()
	if q.engine.server != nil {
		q.runOnServer(ctx, attempts)
	} else {
		q.transact(ctx, attempts)
	}
}

// errInterrupted is the error of an attempt whose outcome is not known, because the evaluator of another one has panicked, called
// runtime.Goexit, or decided differently from the server.
var errInterrupted = fmt.Errorf("%w: the outcome of an earlier request of the batch is not known", storage.ErrUnavailable)
