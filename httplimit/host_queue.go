package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	waiting   waitingRequests
	groups    *denialGroups // of the Transport
	active    int           // requests that arrived and have not ended
	slots     int64         // requests that have a slot
	inFlight  int           // requests that were sent and have no response
	responses int64         // all responses so far
	events    int64         // all sends and responses so far; gives them an order
}

// pendingRequest is a request from its arrival in a hostQueue until its response. The lock of the
// queue guards it.
type pendingRequest struct {
	queue   *hostQueue
	arrival int64         // its number among the requests of the Transport
	wakeUp  chan struct{} // with a buffer of one
	hasSlot bool
	delay   string       // the WaitError.By of the last denial by the Limiter
	group   *denialGroup // of that denial; nil if there was none, and after the request was sent
	inLine  bool         // in the line of the group

	sentAt          int64 // the value of queue.events
	responsesAtSend int64 // the value of queue.responses when it was sent
	usedRefill      bool  // when it was sent: see serverQuota.spend
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
func (q *hostQueue) add(arrival int64) *pendingRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active++
	return &pendingRequest{queue: q, arrival: arrival, wakeUp: make(chan struct{}, 1)}
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

// wakeWaiters wakes the next request. If the wait is certain, it wakes all, because the
// wait may be longer than their contexts allow.
func (q *hostQueue) wakeWaiters(now time.Time) {
	q.waiting.next(nil).wake()
	if q.earliestSend(now, q.slots).After(now) && q.waitIsCertain(now) {
		q.waiting.wakeAll()
	}
}

// waitForSlot returns nil when the request has a slot.
func (p *pendingRequest) waitForSlot(ctx context.Context) error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.insert(p)
	defer q.waiting.remove(p)
	for by := p.delay; ; by = cmp.Or(p.delay, theServer) {
		if ctx.Err() != nil {
			return contextEnded(ctx, by)
		}
		now := time.Now()
		at, isNext := q.earliestSend(now, q.slots), q.waiting.next(p) == p
		ready := isNext && !at.After(now)
		if p.inLine || ready && p.group != nil {
			ready = q.waiting.takeTurn(p, now, ready)
		}
		switch {
		case ready:
			q.slots++
			p.hasSlot, q.waiting.preferFresh = true, false
			return nil
		case q.waitIsCertain(now) && retrywait.ExceedsDeadline(ctx, at.Sub(now)):
			return tooLong(theServer, at.Sub(now))
		case p.inLine:
			q.waiting.next(nil).wake() // the requests that can pass p
			turnAt, known := p.group.turnAt(p)
			p.sleep(ctx, known, turnAt.Sub(now))
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

// releaseSlot also ends the turn of the request.
func (p *pendingRequest) releaseSlot(denied bool) {
	p.hasSlot = false
	p.queue.slots--
	if p.group != nil {
		p.group.endTurn(denied)
	}
}

func (p *pendingRequest) leaveGroup() {
	if p.group != nil {
		p.group.leave()
		p.group = nil
	}
}

// trySend ends the slot and reports whether the request is sent now. It is not if the server
// has paused meanwhile, or the context has ended.
func (p *pendingRequest) trySend(ctx context.Context) (sent bool, err error) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	p.releaseSlot(false)
	if ctx.Err() != nil {
		err = contextEnded(ctx, p.delay)
	}
	if err != nil || q.earliestSend(now, 0).After(now) {
		q.wakeWaiters(now)
		return false, err
	}
	p.leaveGroup()
	q.inFlight++
	q.events++
	q.pause.sent++
	p.usedRefill = q.quota.spend(now, q.events)
	p.sentAt, p.responsesAtSend = q.events, q.responses
	return true, nil
}

// postpone ends the slot and lets others pass until the limiter can allow the request.
func (p *pendingRequest) postpone(ctx context.Context, d *compose.Decision) error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	defer q.wakeWaiters(now)
	q.waiting.preferFresh = p.group != nil
	p.delay = fmt.Sprintf("the rule %q", d.Rule)
	if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
		p.releaseSlot(true)
		return tooLong(p.delay, d.RetryAfter)
	}
	of := denial{rule: d.Rule}
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule {
			of.key, of.cost = r.Key, r.Cost
		}
	}
	group := q.groups.deny(of, now.Add(d.RetryAfter))
	p.releaseSlot(true) // after deny, because it wakes the next request of the group
	p.leaveGroup()
	p.group = group
	return nil
}

// abandon ends a request that is not sent.
func (p *pendingRequest) abandon() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	if p.hasSlot {
		p.releaseSlot(false)
		q.wakeWaiters(time.Now())
	}
	p.leaveGroup()
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
