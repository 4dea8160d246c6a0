package httplimit

import (
	"cmp"
	"slices"
	"sync"
	"time"
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
	arrivals  int64             // all requests so far
	active    int               // requests that arrived and have not ended
	slots     int64             // requests that have a slot
	preferNew bool              // the Limiter denied a request again: the next slot goes to one it has not denied
	inFlight  int               // requests that were sent and have no response
	responses int64             // all responses so far
	events    int64             // all sends and responses so far; gives them an order
}

func newHostQueue(maxPause time.Duration) *hostQueue {
	return &hostQueue{pause: serverPause{max: maxPause}, quota: newServerQuota(maxPause)}
}

// unused reports whether the queue can be deleted: it has no requests, and a new queue
// would send as many.
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
	q.arrivals++
	return &pendingRequest{queue: q, arrival: q.arrivals, wakeUp: make(chan struct{}, 1)}
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

// insert keeps the order of arrival. So a request that had a slot and was not sent goes before
// all requests that arrived later.
func (q *hostQueue) insert(p *pendingRequest) {
	q.waiting = slices.Insert(q.waiting, q.index(p), p)
}

func (q *hostQueue) index(p *pendingRequest) int {
	at, _ := slices.BinarySearchFunc(q.waiting, p.arrival, func(other *pendingRequest, arrival int64) int {
		return cmp.Compare(other.arrival, arrival)
	})
	return at
}

// remove also wakes the next request and the first one with the same denial, because p may
// have been either of them.
func (q *hostQueue) remove(p *pendingRequest) {
	at := q.index(p)
	q.waiting = slices.Delete(q.waiting, at, at+1)
	q.next(time.Now()).wake()
	if p.denial != (denial{}) {
		q.firstDenied(p.denial).wake()
	}
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
