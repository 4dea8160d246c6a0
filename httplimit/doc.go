// Package httplimit limits HTTP requests: [Handler] on servers, and [Transport] on clients.
//
//	limiter, err := sluice.For(store, rules...)
//	http.Handle("/", httplimit.Handler(limiter, next, httplimit.Options{}))
//
// # What the client sees
//
// The response to each request that the limiter allows or denies reports the limits and what remains of them:
//
//	RateLimit-Policy: "client";q=100;w=60
//	RateLimit: "client";r=42;t=1
//
// The fields are those of the IETF's draft-ietf-httpapi-ratelimit-headers-11; docs/client.md explains them. Shadow rules are never
// shown. The response to a denied request is a problem document (RFC 9457).
//
// # Statuses
//
// A request is refused if the limiter denies it or cannot decide:
//
//	429  denied for now; or the request lacks a key, see OptionalKey.OrDeny
//	413  the cost is above the capacity of a rule in Options.Bytes, so no wait helps
//	422  the cost is above the capacity of another rule
//	503  the store failed under sluice.FailClosed, or the request's context ended, as when the client is gone
//	500  a rule failed, such as with an error of its PolicyFor; or storage.ErrKey
//
// A refused request is answered before its body has arrived. Over HTTP/1, the connection of a request with a body then closes.
//
// The package logs nothing. To log the errors of the store, also those of requests that sluice.FailOpen allows, set
// sluice.Options.Observer.
//
// # Requests in flight
//
// Under an inflight rule, a request holds its units until the next handler returns or panics. This holds even if the client is gone
// earlier, or a hijacked connection stays open longer. If the units are lost, the request's context ends with a cause that wraps
// [sluice.ErrHoldLost]. A slow store delays the release and the end of the response, for at most sluice.Options.Timeout.
//
// # Cost known after the response
//
// Options.Settle and Options.SettleRules correct what a request costs after its response, for instance to nothing if a login
// succeeded. The request is charged before, so concurrent requests count. The correction is one more operation of the store. The
// RateLimit fields show the state before it.
//
// If a client leaves early, httputil.ReverseProxy writes 502, and many handlers write nothing, which counts as 200. If that status
// refunds a request, clients can bypass the limit by leaving. So write a status for this case, and keep the charge for it:
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
// If the inner limiter denies, the outer limiter's charge stays. To charge all rules or none, put them into one limiter. Each limiter
// appends its items to the fields. But behind a handler that makes its own header, such as http.TimeoutHandler, the fields of the
// inner limiter replace the others.
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
// httputil.ReverseProxy does not pass on headers that the client names in Connection, but [KeyByHeader] and [KeyByCookie] read them.
// So a client could use any key that the backend never sees. Delete these headers in front of the Handler.
//
// # Response writers
//
// With Options.Settle or Options.SettleRules, the next handler gets another ResponseWriter. http.ResponseController, http.Flusher and
// http.Hijacker work with it, http.Pusher does not. With it, http.MaxBytesReader cannot close the connection after a body that is too
// large, so call MaxBytesReader in front of the Handler.
package httplimit
