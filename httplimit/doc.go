// Package httplimit limits HTTP requests: [Handler] on servers, and [Transport] on clients.
//
//	limiter, err := sluice.For(store, rules...)
//	http.Handle("/", httplimit.Handler(limiter, next, httplimit.Options{}))
//
// # What the client sees
//
// The response to each request that the limiter allows or denies reports the limits and
// what remains of them. The fields are those of the IETF's
// draft-ietf-httpapi-ratelimit-headers-11:
//
//	RateLimit-Policy: "client";q=100;w=60
//	RateLimit: "client";r=42;t=1
//
// q is the capacity: the most units that are available at once. w is the time in which q units come back. r is how many units
// remain. t is the time until there are more, or after a denial until the request's cost is available. Times are in seconds,
// rounded up.
//
// A rule such as "inflight 20 ttl=30s" has the unit concurrent-requests, and no w. It has no t unless it denies. Its t is then 1,
// and the client may be denied again.
//
// The response to a denied request is a problem document (RFC 9457). If waiting helps, the status is 429, and Retry-After is the
// longest t of the rules that denied.
//
// A policy with several parts, such as all(gcra 10/s; gcra 100/m) or a penalty around it, has an item in
// RateLimit-Policy for each part, "client.1" and "client.2", and one in RateLimit: the part with the least
// remaining, or after a denial the part with the longest wait. Shadow rules are never shown.
//
// # Statuses
//
// A request is refused if the limiter denies it or cannot decide:
//
//	429  denied for now; or the request lacks a key, see OptionalKey.OrDeny
//	413  denied: the cost is above the capacity of a rule in Options.Bytes, so no wait helps
//	422  denied: the cost is above the capacity of another rule, so no wait helps
//	503  the store failed, and the limiter's failure policy is sluice.FailClosed;
//	     or the request's context ended before the decision, as when the client is gone.
//	     Retry-After is 5 seconds
//	500  a rule failed, such as with a negative cost or an error of its PolicyFor
//
// A refused request is answered before its body has arrived. Over HTTP/1, the connection of a request
// with a body then closes, and the response has Connection: close.
//
// The package logs nothing. To log an error of the store, read [Refusal].Err in Options.OnDenied, or set
// sluice.Options.Observer, which also gets the errors of requests that sluice.FailOpen allows.
//
// # Requests in flight
//
// Under a rule such as "inflight 20 ttl=30s", a request holds its units until the next handler returns or panics, even if the
// client is gone earlier. They are renewed meanwhile. If they are lost, the request's context ends with a cause that wraps
// [sluice.ErrHoldLost]. Other rules stay charged.
//
// net/http sends the end of the response after the release. So a slow store delays it, at most for sluice.Options.Timeout. If a
// handler hijacks the connection, the units are held only until the handler returns.
//
// # Cost known after the response
//
// Options.Settle and Options.SettleRules correct what a request costs after its response, for instance to nothing if a login
// succeeded. The request is charged before, so concurrent requests count. The correction is one more operation of the store, after
// the next handler has returned or panicked, even if the client is gone. The RateLimit fields show the state before it.
//
// If a client leaves early, the handler may not know the result. httputil.ReverseProxy then writes 502, and many handlers write
// nothing, which counts as 200. If that status refunds a request, clients can bypass the limit by leaving. So write a status for
// this case, and keep the charge for it:
//
//	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
//		status := http.StatusBadGateway
//		if r.Context().Err() != nil {
//			status = 499 // the client left; nginx logs the same number
//		}
//		w.WriteHeader(status)
//	}
//
// # Several limiters on a route
//
// Each limiter appends its items to the fields. If the inner limiter denies, the outer limiter's
// charge stays. To charge all rules or none, put them into one limiter. Behind a handler that makes a
// header of its own, such as http.TimeoutHandler, the fields of the inner limiter replace the others.
//
// # Web pages of other origins
//
// Put the CORS middleware in front of the Handler, and let it expose RateLimit, RateLimit-Policy and Retry-After.
//
// # In front of a reverse proxy
//
// If the backend sends an interim response such as 103, httputil.ReverseProxy loses the limiter's fields. It also adds the
// backend's own X-RateLimit fields to those of Options.Legacy. The reverse proxy example of [Handler] prevents both.
//
// httputil.ReverseProxy does not pass on the headers that a client names in Connection, but [KeyByHeader] and [KeyByCookie] read them. So
// a client could use any key, and the backend would get none. Delete these headers in front of the Handler.
//
// # Bodies and response writers
//
// The next handler gets the original ResponseWriter, so http.ResponseController, http.Flusher and http.Hijacker
// work. With Options.Settle or Options.SettleRules it gets another one, with which these work too. But that one is no
// http.Pusher. And with it, http.MaxBytesReader cannot close the connection after a body that is too large. So call MaxBytesReader
// in front of the Handler then. The next handler gets the original Request, or one with another context if units are held.
package httplimit
