package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/internal/sweep"
)

// Transport is an http.RoundTripper for clients. It delays requests so that they stay within the limits that servers report,
// and within a limiter of the client's own. If a request's deadline is before the end of the delay, the request fails with a
// [WaitError] and is not sent. It fails at once, unless it is behind a request that can wait longer: then at its deadline.
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// If the field RateLimit of a response reports that r requests remain, and more after a time t, Transport sends at most r more
// requests until then, but waits for at most an hour. If no response reports more, it then sends one in each t, or in each
// minute if t is longer. After the first response, the server denies no request. This holds if the limit counts requests, no
// other client shares it, all routes report it, the Limiter delays no request, and each response arrives within a second.
//
// A response with the status 429 or 503 pauses all requests that share the limit: for its Retry-After, or else the t of its
// RateLimit, but at most an hour. If it has neither, or none above 0, Transport backs off exponentially from 1 second. After a
// pause, it sends the waiting requests over one second.
//
// Requests wait for a server in the order in which they arrive, and then for the Limiter as in [sluice.Limiter.Wait].
//
// The zero value is ready to use. A Transport must not be copied after first use. It is safe for concurrent use.
type Transport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is the client's own limiter, or nil. A rule with the key KeyByHost limits each host separately. Do not use an
	// inflight rule, because Transport does not release its units.
	Limiter *sluice.Limiter[*http.Request]
	// Key returns the key of the server's limit that a request uses. Nil means KeyByHost. Set Key if a server has separate limits
	// for some of its routes.
	Key func(*http.Request) string
	// MaxRetries is how often a request is sent again after a 429 or 503. 0 or less means never. A retry waits, and is charged,
	// like a new request.
	//
	// A request is sent again only if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or it has the field Idempotency-Key.
	// If it has a body, it must have GetBody. Otherwise, or if the context's deadline is before the end of the pause, the caller
	// gets the response.
	MaxRetries int

	mu      sync.Mutex
	servers map[string]*server
	sweeps  sweep.Schedule // of the unused ones
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. A request that was not sent fails with a *WaitError, or with the error of the
// Limiter. Other errors are those of Base.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := false
	defer func() { // even if Key or a function of the limiter's rules panics
		if !sent && r.Body != nil {
			_ = r.Body.Close() // every RoundTripper must close it
		}
	}()
	s := t.serverOf(r)
	for retries := t.MaxRetries; ; {
		response, err := t.attempt(r, s, &sent)
		if err == nil && !sent {
			continue // the server has paused meanwhile
		}
		if err != nil || retries <= 0 || !retryable(r, response) || retrywait.ExceedsDeadline(r.Context(), s.pause()) {
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
		if response.Body != nil { // Base may be a fake
			discard(response.Body)
		}
		sent = false
		retries--
	}
}

// discard closes the body of a response. It reads a short one before, so that the connection can be used again. A server that does not
// end the body must not delay the retry for long.
func discard(body io.ReadCloser) {
	late := time.AfterFunc(time.Second, func() { _ = body.Close() })
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	late.Stop()
	_ = body.Close()
}

// retryable reports whether the server refused a request for now, and the request can be sent again.
func retryable(r *http.Request, response *http.Response) bool {
	if !asksToWait(response) || hasBody(r) && r.GetBody == nil {
		return false
	}
	idempotent := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete}
	return slices.Contains(idempotent, cmp.Or(r.Method, http.MethodGet)) || r.Header.Get("Idempotency-Key") != ""
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// CloseIdleConnections closes the idle connections of Base, if Base has this method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }

// attempt waits for the limits and sends the request. If the server pauses while the request waits for the
// Limiter, attempt refunds the charge, and neither sends nor fails. Otherwise all charged requests would be
// sent at once after the pause.
func (t *Transport) attempt(r *http.Request, s *server, sent *bool) (response *http.Response, err error) {
	p, err := s.accept(r.Context())
	if err != nil {
		return nil, err
	}
	defer func() { s.end(p, *sent, response, err) }() // even if Base or a function of the limiter's rules panics
	if t.Limiter != nil {
		if err := t.waitForLimiter(r); err != nil {
			return nil, err
		}
		if s.pause() > 0 {
			_, _ = t.Limiter.Refund(context.WithoutCancel(r.Context()), r, 1) // if this fails, too much is paid and less is sent
			return nil, nil
		}
	}
	*sent = true
	return t.base().RoundTrip(r)
}

func (t *Transport) waitForLimiter(r *http.Request) error {
	d, err := t.Limiter.Wait(r.Context(), r)
	switch {
	case err == nil || d.Rule == "": // allowed, or the Limiter could not decide
		return err
	case r.Context().Err() != nil:
		return contextEnded(r.Context(), ruleName(d.Rule))
	}
	return tooLong(ruleName(d.Rule), d.RetryAfter)
}

// serverOf returns the server of a request. It first forgets unused servers if there are many.
func (t *Transport) serverOf(r *http.Request) *server {
	keyOf := t.Key
	if keyOf == nil {
		keyOf = KeyByHost
	}
	key := keyOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.servers = sweep.Map(&t.sweeps, t.servers, 64, time.Now(), (*server).unused)
	s := t.servers[key]
	if s == nil {
		if t.servers == nil {
			t.servers = make(map[string]*server)
		}
		s = &server{turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
		t.servers[key] = s
	}
	return s
}

// WaitError is the error of a request that [Transport] did not send. The request's context ended, its deadline is before the
// end of the wait, or the Limiter will never allow the request. If the context has ended, a WaitError wraps its error and
// cause, else [context.DeadlineExceeded].
type WaitError struct {
	// By is what delayed the request: "the server", or the Limiter's rule as in `the rule "own"`.
	By string
	// Wait is the remaining wait. It is [algo.Never] if the Limiter will never allow the request, and 0 if the context has ended.
	Wait time.Duration

	err, cause error // of the context; context.DeadlineExceeded if it has not ended
}

const theServer = "the server"

func ruleName(rule string) string { return fmt.Sprintf("the rule %q", rule) }

func tooLong(by string, wait time.Duration) *WaitError {
	return &WaitError{by, wait, context.DeadlineExceeded, context.DeadlineExceeded}
}

func contextEnded(ctx context.Context, by string) *WaitError {
	return &WaitError{by, 0, ctx.Err(), context.Cause(ctx)}
}

// Error implements error.
func (e *WaitError) Error() string {
	reason := fmt.Sprintf("the context ended before %s allowed it", e.By)
	if e.Wait == algo.Never {
		reason = e.By + " will never allow it"
	} else if e.Wait > 0 {
		reason = fmt.Sprintf("%s requires a wait of %s, which is longer than the context lasts", e.By, e.Wait)
	}
	return fmt.Sprintf("httplimit: request not sent: %s: %v", reason, e.cause)
}

// Unwrap returns the errors that the WaitError wraps.
func (e *WaitError) Unwrap() []error { return []error{e.err, e.cause} }

// Timeout reports whether the error wraps [context.DeadlineExceeded].
func (e *WaitError) Timeout() bool { return errors.Is(e, context.DeadlineExceeded) }
