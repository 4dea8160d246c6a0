package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// pendingRequest is a request from its arrival in a hostQueue until its response.
type pendingRequest struct {
	queue   *hostQueue
	arrival int64
	wakeUp  chan struct{} // with a buffer of one

	denial  denial    // the Limiter's last denial
	retryAt time.Time // the end of that denial

	sentAt          int64 // queue.events when it was sent
	responsesAtSend int64 // queue.responses when it was sent
}

// denial identifies calls that a limiter denies for the same time: calls of one cost under
// one key of a rule. The zero value is no denial.
type denial struct {
	rule, key string
	cost      int64
}

// waitForSlot returns nil when the request has a slot.
func (p *pendingRequest) waitForSlot(ctx context.Context) error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insert(p)
	defer q.remove(p)
	for by := p.delayedByRule(); ; by = cmp.Or(p.delayedByRule(), theServer) {
		if ctx.Err() != nil {
			return contextEnded(ctx, by)
		}
		now := time.Now()
		at, isNext := q.earliestSend(now, q.slots), q.next(now) == p
		switch {
		case isNext && !at.After(now):
			q.slots++
			q.preferNew = false
			return nil
		case q.waitIsCertain(now) && retrywait.ExceedsDeadline(ctx, at.Sub(now)):
			return outlastsContext(theServer, at.Sub(now))
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
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
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

// releaseSlot ends the slot of a request that is not sent now.
func (p *pendingRequest) releaseSlot() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots--
	q.preferNew = !p.retryAt.IsZero()
	q.wakeWaiters(time.Now())
}

// trySend ends the slot and reports whether the request is sent now. It is not if the
// server has paused meanwhile, or the context has ended: sending would waste the server's
// quota.
func (p *pendingRequest) trySend(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		p.releaseSlot()
		return false, contextEnded(ctx, p.delayedByRule())
	}
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.slots--
	if q.earliestSend(now, 0).After(now) {
		q.wakeWaiters(now)
		return false, nil
	}
	q.inFlight++
	q.events++
	q.pause.sent++
	q.quota.spend(now, q.events)
	p.sentAt, p.responsesAtSend = q.events, q.responses
	return true, nil
}

// postpone lets others pass until the limiter can allow the request. All waiting requests
// with the same denial would be denied until then too.
func (p *pendingRequest) postpone(ctx context.Context, d *compose.Decision) error {
	p.retryAt = time.Now().Add(d.RetryAfter)
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule {
			p.denial = denial{r.Rule, r.Key, r.Cost}
		}
	}
	if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
		return outlastsContext(p.delayedByRule(), d.RetryAfter)
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	for _, other := range p.queue.waiting {
		if other.denial == p.denial {
			other.retryAt = later(other.retryAt, p.retryAt)
		}
	}
	return nil
}

// abandon ends a request that is not sent.
func (p *pendingRequest) abandon() {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.active--
}

// updateFromResponse ends a request that was sent. The response is nil if there was none.
// It returns how long the server pauses all requests.
func (p *pendingRequest) updateFromResponse(response *http.Response) time.Duration {
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
	if response == nil {
		q.quota.lost++
	} else {
		q.pause.update(now, p.sentAt, q.events, response, reported.wait)
	}
	switch {
	case ok:
		uncounted := q.responses - p.responsesAtSend + int64(q.inFlight)
		q.quota.update(now, p.sentAt, q.events, reported, uncounted)
	case response != nil:
		q.quota.updateWithoutReport(now)
	}
	q.responses++
	if q.inFlight == 0 {
		q.quota.allAnswered()
	}
	q.wakeWaiters(now)
	return q.pause.until.Sub(now)
}
