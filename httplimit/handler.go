package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/earlyreply"
)

// Options configure a [Handler]. The zero value is ready to use.
type Options struct {
	// Skip reports whether a request passes without a limit, such as a health check. Do not decide by a value that any client can
	// add, such as a header. To leave out one rule only, use [sluice.Skip] in its PolicyFor.
	Skip func(*http.Request) bool
	// Bytes are the names of the rules whose cost is a number of content bytes, for the unit in RateLimit-Policy and the status
	// 413.
	Bytes []string
	// Legacy adds the fields X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, of the rule with the least remaining,
	// or after a denial with the longest wait. Reset is the Unix time in seconds at which the whole quota is available.
	Legacy bool
	// PartitionSecret adds the parameter pk to the RateLimit fields: a hash of the client's key under this secret, so that a
	// client with several keys can tell their limits apart. Empty means no pk.
	PartitionSecret []byte
	// OnDenied writes the response to a refused request. The RateLimit fields of a denial, Retry-After and Connection: close are
	// already set where they apply. OnDenied must not read the body, because over HTTP/1 reads fail after half a second. Nil means
	// [Problem].
	OnDenied func(http.ResponseWriter, *http.Request, Refusal)
	// Settle returns what a request costs, as a number of calls, after its response. 0 refunds the charge of one call, 1 keeps it,
	// and more is charged even if it is not left. It is called even if the next handler panics, but not after a denial. status and
	// written are those of [Response], and [ResponseTo] returns its header. If Settle panics or returns a negative number, or if
	// the store fails, one call stays charged.
	Settle func(r *http.Request, status int, written int64) int64
	// SettleRules calls the Cost of each rule again after the response, for the final cost. Cost can tell the two calls apart by
	// [ResponseTo]. A rule without Cost is not corrected.
	SettleRules bool
}

// Handler returns a handler that calls next for the requests that the limiter allows. It panics if the limiter or next is nil,
// Options.Bytes names no rule of the limiter, or Options.Settle and Options.SettleRules are both set.
func Handler(limiter *sluice.Limiter[*http.Request], next http.Handler, options Options) http.Handler {
	return Middleware(limiter, options)(next)
}

// Middleware returns a function that wraps handlers as [Handler] does.
func Middleware(limiter *sluice.Limiter[*http.Request], options Options) func(http.Handler) http.Handler {
	if limiter == nil {
		panic("httplimit: the limiter must not be nil")
	}
	for _, name := range options.Bytes {
		if !slices.Contains(limiter.Rules(), name) {
			panic(fmt.Sprintf("httplimit: Options.Bytes has %q, but the rules of the limiter are %q", name, limiter.Rules()))
		}
	}
	if options.Settle != nil && options.SettleRules {
		panic("httplimit: Options.Settle and Options.SettleRules are both set; set one")
	}
	g := &guard{limiter, options}
	g.Bytes, g.PartitionSecret = slices.Clone(g.Bytes), slices.Clone(g.PartitionSecret) // a caller may erase the secret
	if g.OnDenied == nil {
		g.OnDenied = Problem
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: the handler must not be nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.Skip != nil && g.Skip(r) {
				next.ServeHTTP(w, r)
			} else if g.Settle != nil || g.SettleRules { // the cost is known only after the response
				g.serveSettled(w, r, next)
			} else if allowed, release := g.allow(w, r); allowed != nil {
				defer release() // also if next panics
				serveNext(next, w, r, allowed)
			}
		})
	}
}

// serveNext serves a request to the server as given, which can have another context. The server removes the temporary files of the
// MultipartForm of its own request only, and middleware reads the router's Pattern there.
func serveNext(next http.Handler, w http.ResponseWriter, r, given *http.Request) {
	next.ServeHTTP(w, given)
	if given != r { // otherwise a goroutine of next may still read r
		r.MultipartForm, r.Pattern = given.MultipartForm, given.Pattern
	}
}

// guard is what all handlers of one middleware share.
type guard struct {
	limiter *sluice.Limiter[*http.Request]
	Options
}

// allow returns the request for the next handler if it is allowed. The handler's caller must call release when it returns. If the
// request is not allowed, allow has answered it, and returns nil.
// The decision must not escape from this function, so that its results stay on the stack.
func (g *guard) allow(w http.ResponseWriter, r *http.Request) (allowed *http.Request, release func()) {
	d, ctx, release, err := g.limiter.Hold(r.Context(), r)
	if !g.admit(w, r, &d, err) {
		return nil, release
	}
	if holdsUnits(d.Results) {
		r = r.WithContext(ctx)
	}
	return r, release
}

// admit reports whether the request is allowed. Otherwise it answers the request. d must not escape.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, d *sluice.Decision, err error) bool {
	if err != nil {
		g.refuse(w, r, refusalOfError(err))
		return false
	}
	g.writeFields(w.Header(), d.Results)
	if g.Legacy {
		writeLegacy(w.Header(), d, time.Now())
	}
	if !d.Allowed {
		g.refuse(w, r, g.refusalOfDenial(d))
	}
	return d.Allowed
}

// refuse answers a refused request without waiting for its body.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, refusal Refusal) {
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", decimal(seconds(refusal.RetryAfter)))
	}
	earlyreply.Prepare(w, r)
	g.OnDenied(w, r, refusal)
}
