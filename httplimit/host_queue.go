package httplimit

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// hostQueue holds the requests that share one limit of a server. A request waits until it
// gets a slot, holds the slot while the Limiter decides, and is then in flight until its
// response. There are only as many slots as the server would accept requests now, so the
// Limiter does not decide about any others. Transport.mu guards all queues, groups and requests.
type hostQueue struct {
	pause     serverPause
	quota     serverQuota
	active    int   // requests that arrived and have not ended
	slots     int64 // requests that have a slot
	inFlight  int   // requests that were sent and have no response
	responses int64 // all responses so far
	events    int64 // all sends and responses so far; gives them an order

	waiting     list.List     // until the server accepts them; by arrival
	denied      list.List     // the same, but the Limiter has denied these before
	deniedAgain bool          // the Limiter has denied one again, so the next slot is for waiting
	timer       *time.Timer   // when the next request can get a slot; wakes one request, which calls dispatch
	recheck     chan struct{} // closed when a wait that is certain ends after deadline; nil if no context has one
	deadline    time.Time     // the earliest one of the contexts of the requests that wait for recheck
}

// pendingRequest is a request from its arrival in a hostQueue until its response.
type pendingRequest struct {
	queue   *hostQueue
	arrival int64         // its number among the requests of the Transport
	list    *list.List    // in which it waits, of its queue or its group; nil if it does not wait
	element *list.Element // of list
	hasSlot bool
	granted chan struct{} // gets a value with the slot
	delay   string        // the WaitError.By of the last denial by the Limiter
	group   *denialGroup  // of that denial; nil if there was none, and after the request was sent

	sentAt          int64 // the value of queue.events
	responsesAtSend int64 // the value of queue.responses when it was sent
	usedRefill      bool  // when it was sent: see serverQuota.spend
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

// next returns the request that gets the next slot, or nil if none waits.
func (q *hostQueue) next() *pendingRequest {
	waiting, denied := first(&q.waiting), first(&q.denied)
	if waiting != nil && (denied == nil || q.deniedAgain || waiting.arrival < denied.arrival) {
		return waiting
	}
	return denied
}

// dispatch gives slots to as many waiting requests as the server would accept now. A denied request
// also needs a slot of its group. If the group has none, the request waits in the group.
func (q *hostQueue) dispatch(now time.Time) {
	for p := q.next(); p != nil; p = q.next() {
		if at := q.earliestSend(now, q.slots); at.After(now) {
			q.timer.Reset(at.Sub(now))
			return
		}
		if p.group != nil && !p.group.takeSlot(p, now) {
			p.moveTo(&p.group.waiting)
			continue
		}
		p.moveTo(nil)
		p.hasSlot, q.deniedAgain = true, false
		q.slots++
		select {
		case p.granted <- struct{}{}:
		default: // it does not sleep, or will wake
		}
	}
}

// update is called when a slot or a response ended. If the wait is certain and ends after the earliest
// deadline, update wakes all requests whose contexts have deadlines. Each checks its own.
func (q *hostQueue) update(now time.Time) {
	q.dispatch(now)
	if q.recheck != nil && q.waitIsCertain(now) && q.earliestSend(now, q.slots).After(q.deadline) {
		close(q.recheck)
		q.recheck = nil
	}
}

// first returns the first request of a list, or nil.
func first(l *list.List) *pendingRequest {
	if e := l.Front(); e != nil {
		return e.Value.(*pendingRequest)
	}
	return nil
}

// moveTo moves a request to another list, or to none if the list is nil. The lists keep the order of
// arrival. So a request that had a slot and was not sent goes before all that arrived later. A request
// usually becomes the first or the last one.
func (p *pendingRequest) moveTo(l *list.List) {
	if p.list != nil {
		p.list.Remove(p.element)
	}
	if p.list = l; l == nil {
		return
	}
	before := l.Back()
	if next := first(l); next != nil && p.arrival < next.arrival {
		before = nil
	}
	for before != nil && before.Value.(*pendingRequest).arrival > p.arrival {
		before = before.Prev()
	}
	if before == nil {
		p.element = l.PushFront(p)
	} else {
		p.element = l.InsertAfter(p, before)
	}
}

// waitForSlot returns nil when the request has a slot.
func (t *Transport) waitForSlot(ctx context.Context, p *pendingRequest) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := p.queue
	p.moveTo(&q.waiting)
	defer p.moveTo(nil)
	var groupTimer <-chan time.Time
	if p.group != nil {
		p.moveTo(&q.denied)
		groupTimer = p.group.timer.C
	}
	for by := p.delay; ; by = cmp.Or(p.delay, theServer) {
		now := time.Now()
		q.dispatch(now)
		if p.group != nil {
			p.group.dispatch(now)
		}
		wait := q.earliestSend(now, q.slots).Sub(now)
		switch {
		case ctx.Err() != nil:
			return contextEnded(ctx, by)
		case p.hasSlot:
			return nil
		case q.waitIsCertain(now) && retrywait.ExceedsDeadline(ctx, wait):
			return tooLong(theServer, wait)
		}
		var recheck chan struct{}
		if deadline, ok := ctx.Deadline(); ok {
			if q.recheck == nil {
				q.recheck, q.deadline = make(chan struct{}), deadline
			}
			if recheck = q.recheck; deadline.Before(q.deadline) {
				q.deadline = deadline
			}
		}
		if p.granted == nil {
			p.granted = make(chan struct{}, 1)
		}
		t.mu.Unlock()
		select {
		case <-p.granted:
		case <-q.timer.C:
		case <-groupTimer:
		case <-recheck:
		case <-ctx.Done():
		}
		t.mu.Lock()
	}
}

// releaseSlot ends the slot of a request, also in its group.
func (p *pendingRequest) releaseSlot(now time.Time, denied bool) {
	p.hasSlot = false
	p.queue.slots--
	if g := p.group; g != nil {
		g.slots--
		if !denied {
			g.admitted++
		}
		g.timer.Reset(g.retryAt.Sub(now))
	}
}

// trySend ends the slot and reports whether the request is sent now. It is not if the server
// has paused meanwhile, or the context has ended.
func (t *Transport) trySend(ctx context.Context, p *pendingRequest) (sent bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, now := p.queue, time.Now()
	p.releaseSlot(now, false)
	if ctx.Err() != nil {
		err = contextEnded(ctx, p.delay)
	}
	if err != nil || q.earliestSend(now, 0).After(now) {
		q.update(now)
		return false, err
	}
	t.setGroup(p, nil)
	q.inFlight++
	q.events++
	q.pause.sent++
	p.usedRefill = q.quota.spend(now, q.events)
	p.sentAt, p.responsesAtSend = q.events, q.responses
	return true, nil
}

// postpone ends the slot and lets others pass until the limiter can allow the request.
func (t *Transport) postpone(ctx context.Context, p *pendingRequest, d *sluice.Decision) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, now := p.queue, time.Now()
	defer q.update(now)
	q.deniedAgain = p.group != nil
	p.delay = fmt.Sprintf("the rule %q", d.Rule)
	p.releaseSlot(now, true)
	if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
		return tooLong(p.delay, d.RetryAfter)
	}
	of := denial{rule: d.Rule}
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule {
			of.key, of.cost = r.Key, r.Cost
		}
	}
	t.setGroup(p, &of)
	p.group.retryAt, p.group.admitted = now.Add(d.RetryAfter), 0
	p.group.timer.Reset(d.RetryAfter)
	return nil
}

// abandon ends a request that is not sent.
func (t *Transport) abandon(p *pendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p.queue.active--
	if p.hasSlot {
		p.releaseSlot(now, false)
		p.queue.update(now)
	}
	t.setGroup(p, nil)
}

// updateFromResponse ends a request that was sent. The response is nil if there was none; err is
// the error then. It returns how long the server pauses all requests.
func (t *Transport) updateFromResponse(p *pendingRequest, response *http.Response, err error) time.Duration {
	var reported reportedQuota
	ok := false
	if response != nil {
		reported, ok = readQuota(response.Header) // outside the lock, because the field can be long
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	q, now := p.queue, time.Now()
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
		q.quota.giveBack(p.sentAt, p.usedRefill)
	default:
		q.quota.unanswered++
	}
	q.responses++
	if q.inFlight == 0 {
		q.quota.allAnswered()
	}
	q.update(now)
	return q.pause.until.Sub(now)
}

const theServer = "the server"

func tooLong(by string, wait time.Duration) *WaitError {
	return &WaitError{by, wait, context.DeadlineExceeded, context.DeadlineExceeded}
}

func contextEnded(ctx context.Context, by string) *WaitError {
	return &WaitError{by, 0, ctx.Err(), context.Cause(ctx)}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
