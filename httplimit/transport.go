package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// Transport is a client's http.RoundTripper that stays within limits: those of a
// limiter of its own, and those that servers tell. It holds requests back until
// they may be sent, or fails them at once if it is certain that their context ends before
// that. The zero value goes by what servers tell alone.
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// Of a server that tells RateLimit, no more requests are sent than it said were
// left, and then one after each t, until it tells of more. If the limit is one of
// requests, and nobody else spends it, the server has nothing to deny of what is
// sent after its first answer; where some routes tell nothing of limits it may, now
// and then, have one too many to deny. A limit of which no answer tells any more is
// believed for its window, and a minute at least; with more than 64 hosts, one whose
// window is over is forgotten, and met as a new one.
//
// A Retry-After on 429 or 503 stops all that share the server's limit for that long;
// without one, t does. Where neither tells of a time, the first stop is a second, and
// each for a request that was sent after the last such denial is twice as long, until
// there is an answer of another status. The response is the caller's in any case:
// nothing is sent twice. When a stop ends, not all that waited are sent at once: first
// one, then with each tenth of a second as many again as before, and after a second as many
// as there may be; each tenth of MaxPause, if that is shorter than a second.
//
// Requests that are held back by a server have their turns in the order in which they
// came; where it has turns for several, these ask the Limiter together. One that the Limiter
// denies is passed by the others until it may be allowed, and then comes before all that
// came later; but after one that is denied again, the next is one that never asked.
//
// A Transport must not be copied after first use. It is safe for concurrent use,
// starts no goroutine, and has nothing to close but what Base has: http.Client's
// CloseIdleConnections reaches it.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is asked before each request is sent, in addition to what servers
	// tell; nil means nobody is. It is asked when the server would let the request
	// through, and for no more requests at a time than that: one that is held back
	// has not paid, and many that wait for what is left do not ask in vain. What it
	// allowed is given back if the server stops all before that is sent, and who
	// leaves then may do so as late as the limiter's timeout ends. A rule with the
	// key KeyByHost limits each host by itself. A store that fails fails the request, or
	// does not, as the limiter's failure policy says.
	Limiter *compose.Limiter[*http.Request]
	// Key tells which requests share a limit of the server; nil means KeyByHost. A
	// server with limits of its own for some routes wants them told apart.
	Key func(*http.Request) string
	// MaxPause is the longest that a server can stop requests at a time; 0, or less, means
	// an hour. It counts for a server as it is when the first request is sent there.
	MaxPause time.Duration

	mu    sync.Mutex
	gates map[string]*gate
	sweep int // how many gates there may be before idle ones are looked for
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. The error of a request that was not sent says
// who held it back, and wraps that of its context and its cause; or, at once,
// context.DeadlineExceeded where it is certain that it would be held back for longer than
// its context has. Either is a Timeout to url.Error too if it was the deadline. Or it is the
// Limiter's, which could not decide.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	flight, err := t.start(r)
	if err != nil {
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
	sent := false
	defer func() {
		if !sent && r.Body != nil { // even if a function of the limiter's rules panics
			_ = r.Body.Close() // which every RoundTripper has to, and its error is nobody's
		}
	}()
	f = t.enter(r)
	defer func() {
		if !sent {
			f.leave()
		}
	}()
	for !sent && err == nil {
		if err = f.await(r.Context()); err == nil {
			sent, err = t.pass(r, f)
		}
	}
	return f, err
}

// pass asks the limiter for a flight that has its turn. What it allowed is given back
// if the gate has closed meanwhile: what is paid for and held would be sent in one burst
// when the gate opens, whatever the limit.
func (t *Transport) pass(r *http.Request, f *flight) (sent bool, err error) {
	if t.Limiter == nil {
		return f.send(), nil
	}
	paid, d, err := t.reserve(r, f)
	switch {
	case err != nil:
		return false, err
	case paid == nil:
		return false, f.deny(r.Context(), &d)
	}
	if sent, err = f.sendUnlessOver(r.Context()); !sent {
		_, _ = paid.Settle(context.WithoutCancel(r.Context()), 0) // it stays paid then, and less is sent
	}
	return sent, err
}

// reserve lets the next have the turn unless the limiter allows this.
func (t *Transport) reserve(r *http.Request, f *flight) (paid *compose.Reservation[*http.Request], d compose.Decision, err error) {
	defer func() {
		if paid == nil { // even if a function of the limiter's rules panics
			f.yield()
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

// enter lets the request in at its gate, before that can be forgotten.
func (t *Transport) enter(r *http.Request) *flight {
	key := t.keyOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g == nil {
		g = t.addGate(key)
	}
	return g.enter()
}

func (t *Transport) keyOf(r *http.Request) string {
	if t.Key == nil {
		return KeyByHost(r)
	}
	return t.Key(r)
}

func (t *Transport) addGate(key string) *gate {
	t.forget()
	if t.gates == nil {
		t.gates = make(map[string]*gate)
	}
	g := newGate(cmp.Or(max(t.MaxPause, 0), time.Hour))
	t.gates[key] = g
	return g
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
