package httplimit

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// Transport is a client's http.RoundTripper that stays within limits: those of a
// limiter of its own, and those that servers tell. It holds requests back until
// they may be sent, or fails them at once if their context ends before that. The
// zero value goes by what servers tell alone.
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// Of a server that tells RateLimit, no more requests are sent than it said were
// left, and then one after each t, until it tells of more. If the limit is one of
// requests, and nobody else spends it, the server has nothing to deny of what is
// sent after its first answer; where some routes tell nothing of limits it may, now
// and then, have one too many to deny.
//
// A Retry-After on 429 or 503 stops all that share the server's limit for that long;
// without one, t does. Where neither tells of a time, the first stop is a second, and
// each for a request that was sent after the last such denial is twice as long, until
// there is an answer of another status. The response is the caller's in any case:
// nothing is sent twice.
//
// Requests that are held back do not queue: who is first to find room goes first.
// A Transport must not be copied after first use. It is safe for concurrent use,
// starts no goroutine, and has nothing to close but what Base has: http.Client's
// CloseIdleConnections reaches it.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is asked before each request is sent, in addition to what servers
	// tell; nil means nobody is. It is asked when the server lets send, and what it
	// allowed is given back if the server stops all before that is sent: one that
	// is held back has not paid. Many that wait for the same server ask and give
	// back each time it lets one send, and who leaves meanwhile may do so as late as
	// the limiter's budget ends. A rule with the key Host limits each host by
	// itself. A store that fails fails the request, or does not, as the
	// limiter's failure policy says.
	Limiter *compose.Limiter[*http.Request]
	// Key tells which requests share a limit of the server; nil means Host. A
	// server with limits of its own for some routes wants them told apart.
	Key func(*http.Request) string
	// MaxPause is the longest that a server can stop requests at a time; 0 means
	// an hour.
	MaxPause time.Duration

	mu    sync.Mutex
	gates map[string]*gate
	sweep int // how many gates there may be before idle ones are looked for
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. The error of a request that was not sent
// wraps that of its context, or context.DeadlineExceeded where it would have been
// held back for longer than its context has, which is a Timeout to url.Error too; or
// it is the Limiter's, which could not decide.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	flight, err := t.start(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // which every RoundTripper has to, and its error is nobody's
		}
		return nil, err
	}
	var response *http.Response
	defer func() { flight.land(response) }() // even if Base panics
	response, err = t.base().RoundTrip(r)
	return response, err
}

// CloseIdleConnections closes those of Base, if that has such a method; it is what
// http.Client's method of that name calls.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// start holds the request back until it may be sent.
func (t *Transport) start(r *http.Request) (f *flight, err error) {
	g := t.gateOf(r)
	defer func() {
		if f == nil { // even if a function of the Limiter's rules panics
			g.leave()
		}
	}()
	if t.Limiter == nil {
		return g.pass(r.Context())
	}
	for passed := false; !passed && err == nil; {
		f, passed, err = t.ask(r, g)
	}
	return f, err
}

// ask takes from the limiter when the gate is open, and gives it back if the gate
// has closed meanwhile. What was paid for and held would be sent in one burst when
// the gate opens, whatever the limit.
func (t *Transport) ask(r *http.Request, g *gate) (f *flight, passed bool, err error) {
	if err := g.ready(r.Context()); err != nil {
		return nil, false, err
	}
	paid, d, err := t.Limiter.Reserve(r.Context(), r, 1)
	switch {
	case err != nil:
		return nil, false, err
	case paid == nil:
		return nil, false, sleep(r.Context(), &d)
	}
	if f, passed = g.tryPass(); !passed {
		_, _ = paid.Settle(context.WithoutCancel(r.Context()), 0) // it stays paid then, and less is sent
	}
	return f, passed, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// gateOf finds or makes the gate of a request, which the request must pass.
func (t *Transport) gateOf(r *http.Request) *gate {
	key := Host(r)
	if t.Key != nil {
		key = t.Key(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g == nil {
		t.forget()
		if t.gates == nil {
			t.gates = make(map[string]*gate)
		}
		g = newGate(t.maxPause())
		t.gates[key] = g
	}
	g.enter()
	return g
}

func (t *Transport) maxPause() time.Duration {
	if t.MaxPause == 0 {
		return time.Hour
	}
	return t.MaxPause
}

// forget drops gates that have nothing to tell, whenever there are twice as many as
// were kept the last time.
func (t *Transport) forget() {
	if len(t.gates) < max(t.sweep, 64) {
		return
	}
	for key, g := range t.gates {
		if g.idle() {
			delete(t.gates, key)
		}
	}
	t.sweep = 2 * len(t.gates)
}
