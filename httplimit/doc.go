// Package httplimit limits HTTP requests on both sides: [Handler] and [Middleware]
// put a [compose.Limiter] in front of a server's handlers, and [Transport] keeps a
// client within what servers allow.
//
//	limiter, err := compose.New(store, rules...)
//	http.Handle("/", httplimit.Handler(limiter, next, httplimit.Options{}))
//
// # What the client sees
//
// Every response tells the limits and what is left of them, in the fields of the
// IETF's draft-ietf-httpapi-ratelimit-headers-11:
//
//	RateLimit-Policy: "client";q=100;w=60
//	RateLimit: "client";r=42;t=1
//
// q is the capacity, the most units that can be had at once, and w the whole
// seconds in which that much comes back, rounded up. r is what is left, and t the
// whole seconds, rounded up, until there is more. A denial adds Retry-After and a
// problem document (RFC 9457):
//
//	HTTP/1.1 429 Too Many Requests
//	RateLimit-Policy: "client";q=100;w=60
//	RateLimit: "client";r=0;t=1
//	Retry-After: 1
//	Content-Type: application/problem+json
//
// Names of fields are the same in any case, and net/http writes these as
// Ratelimit-Policy and Ratelimit. After a denial, t is the wait for the cost that was
// denied, and Retry-After the longest of these waits.
//
// A client that waits exactly Retry-After is let in, if nobody else spends. A policy of
// several parts, all(gcra 10/s; gcra 100/m), tells each of them, as "client.1" and
// "client.2", and what is left of the one that bound. Shadow rules show nowhere.
//
//	429  not now; or the caller is not named, see [Caller].OrDeny
//	413  never: the cost is a size, and larger than the capacity
//	422  never: the cost is larger than the capacity
//	503  the store failed, and the limiter's failure policy is compose.FailClosed;
//	     Retry-After says 5 seconds, because nobody knows when the store is back
//	500  a rule's own fault, such as a negative cost or a PolicyFor that fails
//
// A refusal does not wait for the body of its request. Over HTTP/1 the connection of a
// request with a body closes after a refusal, and the client is told so.
//
// Nothing is logged. compose.Options.Observer is told of every error, also of one that
// compose.FailOpen lets through, and Options.OnDenied has it in [Refusal].Err: without one of
// the two a store that lacks its table shows as a 503 and no more.
//
// # Several limiters on a route
//
// Each appends its items to the fields of the others, on one field line. They decide one after the
// other, though: what the outer one took is spent even if the inner one denies.
// Put rules that belong together in one limiter, which charges all or none. And a
// handler between them that keeps the header of the inner one to itself, such as
// http.TimeoutHandler, has the inner one's fields replace those of the outer.
//
// # In front of a reverse proxy
//
// httputil.ReverseProxy clears the header when the program behind it sends an
// interim response, such as 103, and with it what the limiter told. It also adds the
// program's X-RateLimit fields to those of Options.Legacy, so that there are two of
// each. Take the fields out of the header before it serves, and add them when it has
// the response; the example of [Handler] for a reverse proxy shows how.
//
// # What it leaves alone
//
// The handler gets the same ResponseWriter and Request: http.ResponseController,
// Flusher and Hijacker work as they did, and no body is read, let alone buffered.
package httplimit
