package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// Transport is an http.RoundTripper for clients. It delays requests so that they stay within the
// limits that servers report, and within a limiter of the client's own. If a request's context is
// certain to end before the delay ends, the request fails at once with a [WaitError].
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// # Limits that servers report
//
// The field RateLimit of a response reports r, the number of remaining requests, and t, the time
// until there are more. Transport sends at most r more requests, and then one request after each t,
// until a response reports more. Suppose that the limit counts requests, no other client shares it,
// all routes report it, and each request reaches the server within 0.1 seconds and is not canceled in
// this time. Then the server denies no request that Transport sends after the first response.
//
// A request without a response counts as sent, unless it failed to connect: with a [net.OpError]
// whose Op is "dial". If it counts and was sent after the r requests were used up, the next request
// waits for the w of RateLimit-Policy, but at most an hour.
//
// If the responses stop reporting a limit, it stays in force until its whole quota is available
// again, and for at least a minute. With more than 64 servers, Transport forgets those that have
// neither requests nor a pause, and whose whole quota is available again.
//
// A response with the status 429 or 503 pauses all requests that share the limit. The pause is the
// response's Retry-After, or else the t of its RateLimit, but at most an hour. A value that names no
// pause counts as none: 0, a negative number, a date that is not in the future, or malformed text. If
// the response has neither, Transport backs off exponentially from 1 second, until a response has
// another status.
// Several 429 or 503 that were in flight at the same time count once for the backoff.
//
// After a pause, Transport sends one waiting request first. It then doubles the number of sent
// requests every tenth of a second. After a second, it sends the others.
//
// # Order
//
// Requests to a server are sent in the order in which they arrived, except those that the Limiter
// denies. A denied request waits in a queue for its RetryAfter, and other requests are sent meanwhile.
// Then the Limiter decides about it again, before the requests to this server that arrived later and
// still wait. If the Limiter denies it again, the first waiting request that was never denied goes
// next. A new request does not wait in the queue of the denied requests, so the Limiter may allow it
// while they wait.
//
// Requests that the same rule denies with the same key and cost share one queue, even if they are for
// different servers. After RetryAfter, the Limiter decides about them in the order in which they
// arrived, until it denies one. If a server's limit does not allow the first request of the queue, this
// request leaves the queue until the limit allows it, and the Limiter decides about the next one at
// once.
//
// The zero value is ready to use. A Transport must not be copied after first use. It is safe for
// concurrent use and starts no goroutine. It has nothing to close itself.
// [http.Client.CloseIdleConnections] closes the idle connections of Base.
type Transport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is the client's own limiter. Nil means that there is none. A rule with the key
	// KeyByHost limits each host separately. If the store fails, the limiter's failure policy
	// decides whether the request fails.
	//
	// The Limiter decides about a request only when the server's limit allows it, so a request that
	// waits for the server is not charged yet. Transport refunds the charge if, while the Limiter
	// decides, the request's context ends or a response arrives that delays the request again. The
	// refund takes at most the limiter's Timeout, even after the end of the context.
	//
	// The Limiter decides about a denied request again after RetryAfter. If all requests have the same
	// key and cost, and nobody else uses the limit, there are at most about three decisions for each
	// request. This number does not depend on the number of servers.
	Limiter *sluice.Limiter[*http.Request]
	// Key returns a key for each request. Requests with the same key share a server's limit. Nil means
	// KeyByHost. Set Key if a server has separate limits for some of its routes.
	Key func(*http.Request) string
	// MaxRetries is how often a request is sent again after a 429. 0 or less means never: the
	// caller gets the 429. A retry queues like a new request: it waits until the pause that the 429
	// causes is over, and the Limiter decides about it again.
	//
	// A request is sent again only if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE,
	// or it has the field Idempotency-Key. If it has a body, it must have GetBody. If the
	// context's deadline is before the end of the pause, the caller gets the 429.
	MaxRetries int

	mu        sync.Mutex
	queues    map[string]*hostQueue
	nextSweep int   // the number of queues at which unused queues are deleted
	arrivals  int64 // all requests so far
	groups    map[denial]*denialGroup
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. A request that was not sent fails with a
// [*WaitError], or with the Limiter's error if the Limiter could not decide. All other
// errors are those of Base.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for retries := t.MaxRetries; ; retries-- {
		response, pause, err := t.sendOnce(r)
		if err != nil || retries <= 0 || !retryable(r, response) || retrywait.ExceedsDeadline(r.Context(), pause) {
			return response, err
		}
		if hasBody(r) { // which Base has read and closed
			body, err := r.GetBody()
			if err != nil {
				return response, nil
			}
			r = r.WithContext(r.Context())
			r.Body = body
		}
		// After a short body was read to its end, the connection can be used again.
		_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
		_ = response.Body.Close()
	}
}

// CloseIdleConnections closes the idle connections of Base, if Base has this method.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// sendOnce sends the request when the limits allow it. It returns the server's pause after the response.
func (t *Transport) sendOnce(r *http.Request) (response *http.Response, pause time.Duration, err error) {
	var p *pendingRequest
	sent := false
	defer func() { // even if Base, Key or a function of the limiter's rules panics
		if sent {
			pause = t.updateFromResponse(p, response, err)
			return
		}
		if p != nil {
			t.abandon(p)
		}
		if r.Body != nil {
			_ = r.Body.Close() // every RoundTripper must close it
		}
	}()
	p = t.enqueue(r)
	for !sent && err == nil {
		if err = t.waitForSlot(r.Context(), p); err == nil {
			sent, err = t.useSlot(r, p)
		}
	}
	if sent {
		response, err = t.base().RoundTrip(r)
	}
	return response, 0, err
}

// useSlot asks the limiter about a request that has a slot. If the server has paused meanwhile, the
// charge is refunded. Otherwise all charged requests would be sent at once after the pause.
func (t *Transport) useSlot(r *http.Request, p *pendingRequest) (sent bool, err error) {
	if t.Limiter == nil {
		return t.trySend(r.Context(), p)
	}
	paid, d, err := t.Limiter.Reserve(r.Context(), r, 1)
	switch {
	case err != nil:
		return false, err
	case paid == nil:
		return false, t.postpone(r.Context(), p, &d)
	}
	if sent, err = t.trySend(r.Context(), p); !sent {
		_, _ = paid.Settle(context.WithoutCancel(r.Context()), 0) // if this fails, too much is paid and less is sent
	}
	return sent, err
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

func (t *Transport) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }

// enqueue adds the request to the queue of its host. Either abandon or updateFromResponse must end it.
func (t *Transport) enqueue(r *http.Request) *pendingRequest {
	keyOf := t.Key
	if keyOf == nil {
		keyOf = KeyByHost
	}
	key := keyOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[key]
	if q == nil {
		if t.queues == nil {
			t.queues, t.groups = make(map[string]*hostQueue), make(map[denial]*denialGroup)
		}
		if now := time.Now(); len(t.queues) >= max(t.nextSweep, 64) {
			maps.DeleteFunc(t.queues, func(_ string, q *hostQueue) bool {
				return q.active == 0 && q.pause.isOver(now) && q.quota.isOver(now)
			})
			t.nextSweep = 2 * len(t.queues)
		}
		q = &hostQueue{timer: time.NewTimer(0), quota: serverQuota{lowest: math.MaxInt64}}
		t.queues[key] = q
	}
	t.arrivals++
	q.active++
	return &pendingRequest{queue: q, arrival: t.arrivals}
}

// WaitError is the error of a request that [Transport] did not send. The request's context ended,
// its deadline is before the end of the wait, or the Limiter will never allow the request. If the
// context has ended, a WaitError wraps its error and cause, else [context.DeadlineExceeded].
type WaitError struct {
	// By is what delayed the request: "the server", or the Limiter's rule as in
	// `the rule "own"`. It is empty if the context ended before there was a delay.
	By string
	// Wait is the remaining wait if the context has not ended. It is [algo.Never] if the
	// Limiter will never allow the request. It is 0 if the context has ended.
	Wait time.Duration

	err, cause error // of the context; context.DeadlineExceeded if it has not ended
}

// Error implements error.
func (e *WaitError) Error() string {
	reason := ""
	switch {
	case e.Wait == algo.Never:
		reason = e.By + " will never allow it: "
	case e.Wait > 0:
		reason = fmt.Sprintf("%s requires a wait of %s, which is longer than the context lasts: ", e.By, e.Wait)
	case e.By != "":
		reason = fmt.Sprintf("the context ended while it waited for %s: ", e.By)
	}
	return fmt.Sprintf("httplimit: request not sent: %s%v", reason, e.cause)
}

// Unwrap returns the errors that the WaitError wraps.
func (e *WaitError) Unwrap() []error { return []error{e.err, e.cause} }

// Timeout reports whether the error wraps [context.DeadlineExceeded], as it does if Wait is above 0.
// The method Timeout of url.Error calls it.
func (e *WaitError) Timeout() bool { return errors.Is(e, context.DeadlineExceeded) }
