package httplimit

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// Transport is an http.RoundTripper for clients. It delays requests so that they stay
// within the limits that servers report, and within a limiter of the client's own. If a
// request's context is certain to end before the delay does, the request fails at once
// with a [WaitError]. The zero value follows the servers' limits only.
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// # Limits that servers report
//
// If a response has the field RateLimit, at most r more requests are sent, and then one
// request after each t, until a response reports more. If the limit counts requests and
// no other client shares it, the server denies nothing after its first response. If some
// routes of the server report no limits, an occasional request can be denied. If
// responses stop reporting a limit, it stays in force for its window, and for at least a
// minute. Transport remembers each server. With more than 64 servers, it forgets those
// whose windows are over.
//
// A 429 or 503 pauses all requests that share the server's limit. The pause is the
// response's Retry-After, or else its t. If the response has neither, Transport backs off
// exponentially, from 1 second, until a response has another status. Several such
// responses to requests that were in flight together count as one failure.
//
// After a pause, the waiting requests are not all sent at once. One is sent first, and the
// number that was sent doubles every tenth of a second. After a second there is no such
// limit. If MaxPause is shorter than a second, the ramp takes MaxPause.
//
// # Order
//
// Requests to a server are sent in the order in which they arrived. A request that the
// Limiter denied lets others pass until its RetryAfter is over, and then goes before all
// requests that arrived later. If the Limiter denies it again, the next turn goes to a
// request that the Limiter has not denied yet.
//
// A Transport must not be copied after first use. It is safe for concurrent use and
// starts no goroutine. It has nothing to close except the connections of Base, which
// [http.Client.CloseIdleConnections] closes.
type Transport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is a limiter of the client's own. It decides about each request, in
	// addition to the servers' limits. Nil means that there is none.
	//
	// The Limiter decides only when the server's limit lets the request through, so a
	// request that waits for the server has paid nothing. If the server pauses all
	// requests after the Limiter allowed one, Transport gives the payment back. That
	// takes at most the limiter's Timeout, even if the request's context has ended.
	//
	// A rule with the key KeyByHost limits each host separately. If the store fails,
	// the limiter's failure policy decides whether the request fails.
	Limiter *compose.Limiter[*http.Request]
	// Key returns the key of the server's limit that a request counts for. Requests
	// with the same key share a limit. Nil means KeyByHost. Set it if a server has
	// separate limits for some of its routes.
	Key func(*http.Request) string
	// MaxPause is the longest time for which a response can pause requests. 0 or less
	// means an hour. The first request to a server fixes it for that server.
	MaxPause time.Duration
	// MaxRetries is how often a request is sent again after a 429. 0 or less means
	// never: the caller gets the 429. A retry waits for the pause that the 429 asks
	// for, and the Limiter decides about it like about a new request.
	//
	// A request is only sent again if its method is GET, HEAD, OPTIONS, TRACE, PUT or
	// DELETE, or it has an Idempotency-Key, and if it has no body or a GetBody. The
	// caller gets the 429 if its context is certain to end before the pause does.
	MaxRetries int

	mu        sync.Mutex
	queues    map[string]*hostQueue
	nextSweep int // the number of queues at which unused queues are deleted
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. A request that was not sent fails with a
// [*WaitError], or with the Limiter's error if the Limiter could not decide. All other
// errors are those of Base.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for retries := t.MaxRetries; ; retries-- {
		response, wait, err := t.sendOnce(r)
		if err != nil || retries <= 0 || !retryable(r, response) || retrywait.ExceedsDeadline(r.Context(), wait) {
			return response, err
		}
		next, err := rewind(r)
		if err != nil {
			return response, nil
		}
		discard(response.Body)
		r = next
	}
}

// CloseIdleConnections closes the idle connections of Base, if Base has this method.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// sendOnce sends the request when the limits allow it. It returns the server's pause
// after the response.
func (t *Transport) sendOnce(r *http.Request) (response *http.Response, wait time.Duration, err error) {
	p, err := t.waitToSend(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() { wait = p.updateFromResponse(response) }() // even if Base panics
	response, err = t.base().RoundTrip(r)
	return response, 0, err
}

// retryable reports whether the server denied a request that can be sent again.
func retryable(r *http.Request, response *http.Response) bool {
	if response.StatusCode != http.StatusTooManyRequests || hasBody(r) && r.GetBody == nil {
		return false
	}
	switch cmp.Or(r.Method, http.MethodGet) {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// rewind returns the request with a new body, because Base has read and closed the old one.
func rewind(r *http.Request) (*http.Request, error) {
	if !hasBody(r) {
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	next := r.WithContext(r.Context())
	next.Body = body
	return next, nil
}

// discard closes a response's body. A short body is read to its end first, so that the
// connection can be used again.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// waitToSend returns when the request can be sent, or fails.
func (t *Transport) waitToSend(r *http.Request) (p *pendingRequest, err error) {
	send := false
	defer func() {
		if !send && r.Body != nil { // even if a function of the limiter's rules panics
			_ = r.Body.Close() // every RoundTripper must close it
		}
	}()
	p = t.enqueue(r)
	defer func() {
		if !send {
			p.abandon()
		}
	}()
	for !send && err == nil {
		if err = p.waitForSlot(r.Context()); err == nil {
			send, err = t.useSlot(r, p)
		}
	}
	return p, err
}

// useSlot asks the limiter about a request that has a slot. If the server has paused
// meanwhile, the payment is given back. Otherwise all requests that have paid would be sent
// in one burst after the pause, whatever the limit.
func (t *Transport) useSlot(r *http.Request, p *pendingRequest) (send bool, err error) {
	if t.Limiter == nil {
		return p.trySend(r.Context())
	}
	paid, d, err := t.reserve(r, p)
	switch {
	case err != nil:
		return false, err
	case paid == nil:
		return false, p.postpone(r.Context(), &d)
	}
	if send, err = p.trySend(r.Context()); !send {
		_, _ = paid.Settle(context.WithoutCancel(r.Context()), 0) // if this fails, too much is paid and less is sent
	}
	return send, err
}

// reserve releases the slot unless the limiter allows the request.
func (t *Transport) reserve(r *http.Request, p *pendingRequest) (paid *compose.Reservation[*http.Request], d compose.Decision, err error) {
	defer func() {
		if paid == nil { // even if a function of the limiter's rules panics
			p.releaseSlot()
		}
	}()
	return t.Limiter.Reserve(r.Context(), r, 1)
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// enqueue adds the request to the queue of its host. It holds t.mu, so that the queue
// is not deleted meanwhile.
func (t *Transport) enqueue(r *http.Request) *pendingRequest {
	key := t.keyOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[key]
	if q == nil {
		t.deleteUnusedQueues()
		if t.queues == nil {
			t.queues = make(map[string]*hostQueue)
		}
		q = newHostQueue(cmp.Or(max(t.MaxPause, 0), time.Hour))
		t.queues[key] = q
	}
	return q.add()
}

func (t *Transport) keyOf(r *http.Request) string {
	if t.Key == nil {
		return KeyByHost(r)
	}
	return t.Key(r)
}

// deleteUnusedQueues runs when the number of queues has doubled since it last ran.
func (t *Transport) deleteUnusedQueues() {
	if len(t.queues) < max(t.nextSweep, 64) {
		return
	}
	for key, q := range t.queues {
		if q.unused() {
			delete(t.queues, key)
		}
	}
	t.nextSweep = 2 * len(t.queues)
}
