package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/earlyreply"
)

// Options configure a [Handler]. The zero value is ready.
type Options struct {
	// Skip reports whether a request passes without a limit, such as a health check. The
	// limiter does not see the request, and its response has no RateLimit fields. Do not
	// decide by a header or another value that clients choose. Nil means that every
	// request is limited. To leave out one rule only, use [compose.Skip] in its PolicyFor.
	Skip func(*http.Request) bool
	// Bytes are the names of the rules whose cost is a size, in bytes of
	// content: their unit is told, and a request that is too large for the
	// capacity is answered 413.
	Bytes []string
	// Legacy adds X-RateLimit-Limit, -Remaining and -Reset, of the rule that
	// bound. Reset is the Unix time in seconds at which all is there again. Of
	// several limiters on a route the one with the least remaining tells.
	Legacy bool
	// Clock tells the time that Legacy counts from; nil means time.Now. Give it the
	// limiter's, if that has one of its own.
	Clock func() time.Time
	// PartitionSecret adds the parameter pk, which tells a client's keys apart:
	// a hash of the key under this secret. Empty means no pk.
	PartitionSecret []byte
	// OnDenied writes the response to a request that is not let through. The RateLimit
	// fields and Retry-After are set before, and over HTTP/1, if the request has a body,
	// Connection: close. It must not read the body: that fails after half a second. Nil
	// means [Problem].
	OnDenied func(http.ResponseWriter, *http.Request, Refusal)
}

// Handler lets next serve the requests that the limiter allows. It panics if either is
// nil, or Options.Bytes names a rule that the limiter does not have.
func Handler(limiter *compose.Limiter[*http.Request], next http.Handler, options Options) http.Handler {
	return Middleware(limiter, options)(next)
}

// Middleware is Handler for routers that take a func(http.Handler) http.Handler.
// Handlers that it is put before share the limiter.
func Middleware(limiter *compose.Limiter[*http.Request], options Options) func(http.Handler) http.Handler {
	g := newGuard(limiter, options)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: the handler must not be nil")
		}
		return &handler{g, next}
	}
}

type handler struct {
	*guard
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.skip != nil && h.skip(r) || h.admit(w, r) {
		h.next.ServeHTTP(w, r)
	}
}

// guard is what stands before all handlers of one middleware.
type guard struct {
	limiter  *compose.Limiter[*http.Request]
	teller   teller
	skip     func(*http.Request) bool
	legacy   bool
	clock    func() time.Time
	onDenied func(http.ResponseWriter, *http.Request, Refusal)
}

func newGuard(limiter *compose.Limiter[*http.Request], o Options) *guard {
	if limiter == nil {
		panic("httplimit: the limiter must not be nil")
	}
	for _, name := range o.Bytes {
		if !slices.Contains(limiter.Rules(), name) {
			panic(fmt.Sprintf("httplimit: Options.Bytes names %q; the rules of the limiter are %q", name, limiter.Rules()))
		}
	}
	g := &guard{
		limiter:  limiter,
		teller:   teller{bytes: slices.Clone(o.Bytes), secret: slices.Clone(o.PartitionSecret)},
		skip:     o.Skip,
		legacy:   o.Legacy,
		clock:    o.Clock,
		onDenied: o.OnDenied,
	}
	if g.clock == nil {
		g.clock = time.Now
	}
	if g.onDenied == nil {
		g.onDenied = Problem
	}
	return g
}

// admit reports whether the request is let through; otherwise it has been
// answered. The decision must not leave this frame: its results are on the stack.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	d, err := g.limiter.Allow(r.Context(), r)
	if err != nil {
		g.answer(w, r, failure(err))
		return false
	}
	g.teller.tell(w.Header(), d.Results)
	if g.legacy {
		tellLegacy(w.Header(), &d, g.clock())
	}
	if !d.Allowed {
		g.answer(w, r, g.denial(&d))
	}
	return d.Allowed
}

// answer writes the response to a request that is not let through. It does not wait for
// the request's body.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, refusal Refusal) {
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", decimal(seconds(refusal.RetryAfter)))
	}
	earlyreply.Prepare(w, r)
	g.onDenied(w, r, refusal)
}
