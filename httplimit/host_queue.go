package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// hostQueue holds the requests that share one limit of a server. A request waits until it
// gets a slot, holds the slot while the Limiter decides, and is then in flight until its
// response. There are only as many slots as the server would accept requests now, so the
// Limiter does not decide about any others.
type hostQueue struct {
	mu        sync.Mutex
	pause     serverPause
	quota     serverQuota
	waiting   []*pendingRequest // by arrival
	active    int               // requests that arrived and have not ended
	slots     int64             // requests that have a slot
	preferNew bool              // the Limiter denied a request again: prefer one that it has not denied
	inFlight  int               // requests that were sent and have no response
	responses int64             // all responses so far
	events    int64             // all arrivals, sends and responses so far; gives them an order
}

// pendingRequest is a request from its arrival in a hostQueue until its response. The lock of the
// queue guards it.
type pendingRequest struct {
	queue   *hostQueue
	wakeUp  chan struct{} // with a buffer of one
	hasSlot bool
	delay   string    // the WaitError.By of the last denial by the Limiter
	denial  denial    // identifies that denial
	retryAt time.Time // the end of that denial

	arrivedAt, sentAt int64 // values of queue.events
	responsesAtSend   int64 // the value of queue.responses when it was sent
	usedRefill        bool  // when it was sent: see serverQuota.spend
}

// denial identifies calls that a limiter denies for the same time: calls of one cost under
// one key of a rule. The zero value is no denial.
type denial struct {
	rule, key string
	cost      int64
}

// unused reports whether the queue can be deleted: it has no requests and no pause, and the whole
// quota of the server is available again.
func (q *hostQueue) unused() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	return q.active == 0 && q.pause.isOver(now) && q.quota.isOver(now)
}

// add returns a new request. Either abandon or updateFromResponse must end it.
func (q *hostQueue) add() *pendingRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active++
	q.events++
	return &pendingRequest{queue: q, arrivedAt: q.events, wakeUp: make(chan struct{}, 1)}
}

// earliestSend is when a request can be sent, as far as is known now, if so many others
// are sent before it.
func (q *hostQueue) earliestSend(now time.Time, before int64) time.Time {
	if now.Before(q.pause.until) {
		return q.pause.until
	}
	return later(q.pause.rampUp(now, before), q.quota.availableAt(now, before))
}

// waitIsCertain reports whether no response and no decision can make earliestSend earlier.
func (q *hostQueue) waitIsCertain(now time.Time) bool {
	return q.pause.until.After(now) || q.inFlight == 0 && q.slots == 0
}

// next returns the request that gets the next slot, or nil. Requests that the Limiter
// denied are passed over until their retryAt.
func (q *hostQueue) next(now time.Time) (found *pendingRequest) {
	for _, p := range q.waiting {
		switch {
		case p.retryAt.After(now):
		case !q.preferNew || p.retryAt.IsZero():
			return p
		case found == nil:
			found = p
		}
	}
	return found
}

// firstDenied returns the first waiting request with this denial, or nil. It watches the
// time for all of them.
func (q *hostQueue) firstDenied(d denial) *pendingRequest {
	for _, p := range q.waiting {
		if p.denial == d {
			return p
		}
	}
	return nil
}

// wakeWaiters wakes the next request. If the wait is certain, it wakes all, because the
// wait may be longer than their contexts allow.
func (q *hostQueue) wakeWaiters(now time.Time) {
	q.next(now).wake()
	if !q.earliestSend(now, q.slots).After(now) || !q.waitIsCertain(now) {
		return
	}
	for _, p := range q.waiting {
		p.wake()
	}
}

// insert keeps the order of arrival. So a request that had a slot and was not sent goes before
// all requests that arrived later.
func (q *hostQueue) insert(p *pendingRequest) {
	at, _ := slices.BinarySearchFunc(q.waiting, p, func(a, b *pendingRequest) int { return cmp.Compare(a.arrivedAt, b.arrivedAt) })
	q.waiting = slices.Insert(q.waiting, at, p)
}

// remove also wakes the next request and the first one with the same denial, because p may
// have been either of them.
func (q *hostQueue) remove(p *pendingRequest) {
	at := slices.Index(q.waiting, p)
	q.waiting = slices.Delete(q.waiting, at, at+1)
	q.next(time.Now()).wake()
	q.firstDenied(p.denial).wake()
}

// waitForSlot returns nil when the request has a slot.
func (p *pendingRequest) waitForSlot(ctx context.Context) error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insert(p)
	defer q.remove(p)
	for by := p.delay; ; by = cmp.Or(p.delay, theServer) {
		if ctx.Err() != nil {
			return contextEnded(ctx, by)
		}
		now := time.Now()
		at, isNext := q.earliestSend(now, q.slots), q.next(now) == p
		switch {
		case isNext && !at.After(now):
			q.slots++
			p.hasSlot, q.preferNew = true, false
			return nil
		case q.waitIsCertain(now) && retrywait.ExceedsDeadline(ctx, at.Sub(now)):
			return tooLong(theServer, at.Sub(now))
		case p.retryAt.After(now):
			p.sleep(ctx, q.firstDenied(p.denial) == p, p.retryAt.Sub(now))
		default:
			p.sleep(ctx, isNext, at.Sub(now))
		}
	}
}

// sleep waits without the lock until another goroutine wakes the request, the context ends
// or, if timed, d is over.
func (p *pendingRequest) sleep(ctx context.Context, timed bool, d time.Duration) {
	p.queue.mu.Unlock()
	defer p.queue.mu.Lock()
	var over <-chan time.Time
	if timed {
		over = time.After(d)
	}
	select {
	case <-p.wakeUp:
	case <-over:
	case <-ctx.Done():
	}
}

func (p *pendingRequest) wake() {
	if p == nil {
		return
	}
	select {
	case p.wakeUp <- struct{}{}:
	default: // it is awake or about to be
	}
}

func (p *pendingRequest) releaseSlot() {
	p.hasSlot = false
	p.queue.slots--
}

// trySend ends the slot and reports whether the request is sent now. It is not if the server
// has paused meanwhile, or the context has ended.
func (p *pendingRequest) trySend(ctx context.Context) (sent bool, err error) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	p.releaseSlot()
	if ctx.Err() != nil {
		err = contextEnded(ctx, p.delay)
	}
	if err != nil || q.earliestSend(now, 0).After(now) {
		q.wakeWaiters(now)
		return false, err
	}
	q.inFlight++
	q.events++
	q.pause.sent++
	p.usedRefill = q.quota.spend(now, q.events)
	p.sentAt, p.responsesAtSend = q.events, q.responses
	return true, nil
}

// postpone ends the slot and lets others pass until the limiter can allow the request. All
// waiting requests with the same denial would be denied until then too.
func (p *pendingRequest) postpone(ctx context.Context, d *compose.Decision) error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	p.releaseSlot()
	q.preferNew = !p.retryAt.IsZero()
	defer func() { // when the new times are set, because they change who is next
		q.wakeWaiters(now)
		q.firstDenied(p.denial).wake() // it may have been ready, and must watch the time again
	}()
	p.retryAt = now.Add(d.RetryAfter)
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule {
			p.delay, p.denial = fmt.Sprintf("the rule %q", r.Rule), denial{r.Rule, r.Key, r.Cost}
		}
	}
	if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
		return tooLong(p.delay, d.RetryAfter)
	}
	for _, other := range q.waiting {
		if other.denial == p.denial {
			other.retryAt = later(other.retryAt, p.retryAt)
		}
	}
	return nil
}

// abandon ends a request that is not sent.
func (p *pendingRequest) abandon() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	if p.hasSlot {
		p.releaseSlot()
		q.wakeWaiters(time.Now())
	}
}

// updateFromResponse ends a request that was sent. The response is nil if there was none; err is
// the error then. It returns how long the server pauses all requests.
func (p *pendingRequest) updateFromResponse(response *http.Response, err error) time.Duration {
	var reported reportedQuota
	ok := false
	if response != nil {
		reported, ok = readQuota(response.Header) // outside the lock, because the field can be long
	}
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.inFlight--
	q.active--
	q.events++
	if response != nil {
		q.pause.update(now, p.sentAt, q.events, response, reported.wait)
	}
	var failed *net.OpError
	switch {
	case ok:
		uncounted := q.responses - p.responsesAtSend + int64(q.inFlight)
		q.quota.update(now, p.sentAt, q.events, reported, uncounted)
	case response != nil && !now.Before(q.quota.expiresAt):
		q.quota.known = false
	case response != nil, errors.As(err, &failed) && failed.Op == "dial":
		q.quota.giveBack(now, p.sentAt, p.usedRefill)
	default:
		q.quota.lost++
	}
	q.responses++
	if q.inFlight == 0 {
		q.quota.allAnswered()
	}
	q.wakeWaiters(now)
	return q.pause.until.Sub(now)
}

const theServer = "the server"

func tooLong(by string, wait time.Duration) *WaitError {
	return &WaitError{By: by, Wait: wait, err: context.DeadlineExceeded, cause: context.DeadlineExceeded}
}

func contextEnded(ctx context.Context, by string) *WaitError {
	return &WaitError{By: by, err: ctx.Err(), cause: context.Cause(ctx)}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
