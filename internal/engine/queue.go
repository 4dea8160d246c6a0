package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// queue holds the requests that wait for a round trip to one server.
//
// A caller who finds nothing in flight sends its request. Otherwise the request
// waits, and a sender, which is a goroutine with a slot, takes it along with others. A sender ends
// when nothing waits. A request that takes swaps needs no slot; it has a goroutine of its own.
type queue struct {
	engine  *Engine
	breaker breaker

	mu       sync.Mutex
	inFlight int        // slots taken
	apart    int        // trips without a slot
	line     []*Request // in the order of arrival; nil for a caller that has left
	passed   int        // how many requests have left the line at its beginning
	waiting  int        // requests in the line
	answered time.Time  // when the last round trip ended that the store has answered
	trouble  error      // why the last round trip failed, if it did
}

const (
	batchKeys     = 64   // in a batch: a server does nothing else meanwhile
	batchRequests = 1024 // in a batch
	// ownSendWithin is for how long after an answer a caller sends its request itself. That takes two
	// thirds of the time, but go-redis does not notice that a context is cancelled. So callers
	// leave it to a sender unless the server has just answered.
	ownSendWithin = 10 * time.Millisecond
)

func newQueue(e *Engine) *queue {
	return &queue{engine: e, breaker: breaker{openAfter: e.options.OpenAfter}}
}

// decide sees a request through.
func (q *queue) decide(ctx context.Context, r *Request) error {
	switch sends, err := q.enter(r); {
	case err != nil:
		return err
	case sends:
		return q.sendOwn(ctx, r)
	}
	return q.await(ctx, r)
}

// enter takes a slot for the request, or lets it wait.
func (q *queue) enter(r *Request) (sends bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.begin()
	r.done = nil
	o := &q.engine.options
	switch free := q.inFlight < o.InFlight; {
	case q.engine.onCaller:
		return true, nil
	case q.waiting+q.apart >= o.Queue:
		err = fmt.Errorf("%w: %d", storage.ErrOverloaded, q.waiting+q.apart)
		return false, r.outcome(err, r.lost) // the server may have declined it after a lost reply
	case r.bySwaps:
		r.done = make(chan struct{}, 1)
		q.apart++
		go q.runApart(newTrip(q, r), (*trip).run)
		return false, nil
	case q.inFlight == 0 && time.Since(q.answered) < ownSendWithin:
		q.inFlight++
		return true, nil
	case free:
		q.inFlight++
		go q.send()
	}
	r.done = make(chan struct{}, 1)
	r.state, r.place = waiting, q.passed+len(q.line)
	q.line = append(q.line, r)
	q.waiting++
	return false, nil
}

// sendOwn makes one round trip for the request of the caller, on its goroutine. If that does not
// settle the request, a sender goes on, unless the store must be called by the caller.
func (q *queue) sendOwn(ctx context.Context, r *Request) error {
	t := newTrip(q, r)
	if q.engine.onCaller {
		ctx, cancel := context.WithDeadline(ctx, r.deadline)
		defer cancel()
		t.run(ctx)
		return r.err
	}
	if t.attempt(ctx); len(t.requests) == 0 {
		q.release()
		return r.err
	}
	r.done = make(chan struct{}, 1)
	go func() {
		q.repeat(t)
		q.send()
	}()
	return q.await(ctx, r)
}

// send serves the waiting requests, batch by batch, until there are none.
func (q *queue) send() {
	for {
		runtime.Gosched() // lets callers who were just answered join the batch
		t := &trip{queue: q}
		if !q.take(t) {
			return
		}
		t.attempt(context.Background())
		q.repeat(t)
	}
}

// repeat goes on with a trip until all its requests are settled. If the server has several parts that fail on
// their own, it does so without the slot: the others may work.
func (q *queue) repeat(t *trip) {
	if len(t.requests) == 0 {
		return
	}
	if q.engine.placer == nil {
		t.repeat(context.Background())
		return
	}
	q.mu.Lock()
	q.apart++
	q.mu.Unlock()
	go q.runApart(t, (*trip).repeat)
}

// runApart runs a trip that has no slot.
func (q *queue) runApart(t *trip, run func(*trip, context.Context)) {
	run(t, context.Background())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apart--
}

// release gives back a slot, or leaves it to a sender if requests wait.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting > 0 {
		go q.send()
		return
	}
	q.inFlight--
}

// take takes the requests of the next batch out of the line, or gives back the slot.
func (q *queue) take(t *trip) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for keys := 0; q.waiting > 0 && len(t.requests) < batchRequests && keys < batchKeys; q.passed++ {
		r := q.line[0]
		q.line[0], q.line = nil, q.line[1:]
		if r == nil {
			continue
		}
		r.state = sent
		q.waiting--
		keys += len(r.Keys)
		t.requests = append(t.requests, r)
	}
	if len(t.requests) == 0 {
		q.inFlight--
		return false
	}
	t.setUntil()
	return true
}

// leaveLine takes a request out of the line.
func (q *queue) leaveLine(r *Request) {
	q.line[r.place-q.passed] = nil
	q.waiting--
	for len(q.line) > 0 && q.line[0] == nil {
		q.line, q.passed = q.line[1:], q.passed+1
	}
}

// await waits for the outcome of a request for as long as the caller has time.
func (q *queue) await(ctx context.Context, r *Request) error {
	var expired <-chan time.Time
	if r.byBudget {
		timer := time.NewTimer(time.Until(r.deadline))
		defer timer.Stop()
		expired = timer.C
	}
	var ended error
	select {
	case <-r.done:
		return r.err
	case <-expired:
		ended = errNoAnswer
	case <-ctx.Done():
		ended = ctx.Err()
	}
	if ended != context.Canceled && q.isEnding(r) {
		timer := time.NewTimer(endingFor)
		defer timer.Stop()
		select {
		case <-r.done:
			return r.err
		case <-timer.C:
		}
	}
	return q.leave(r, ended)
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
func (q *queue) leave(r *Request, ended error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := r.state
	if was == done {
		<-r.done
		return r.err
	}
	r.state = left
	q.noteSpent(r)
	if was == waiting {
		q.leaveLine(r)
		r.state = done // no sender has it
		r.trouble = q.trouble
	}
	return r.timeout(ended, r.lost || was == sent)
}
