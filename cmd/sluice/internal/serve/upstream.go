package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// dialTimeout is how long a connection to the upstream may take, with its TLS handshake.
const dialTimeout = 10 * time.Second

// maxIdle is how many idle connections to the upstream are kept.
const maxIdle = 512

// idleConnTime is how long an idle connection to the upstream is kept. Node and Uvicorn close one after 5 seconds by default. A
// POST that is sent at that moment would get 502, because it cannot be sent again.
const idleConnTime = 4 * time.Second

// newTransport returns the transport for requests to the upstream. Their contexts must be those of
// endingWith.
func (o *Options) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // if the upstream offers it over TLS
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		// No Proxy: HTTP_PROXY is for requests to the outside, not to the upstream.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(requestOf(ctx).Context(), network, address)
		},
		TLSClientConfig:       new(tls.Config),
		ResponseHeaderTimeout: o.UpstreamTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleConnTime,
		DisableCompression:    true, // the client's Accept-Encoding goes to the upstream unchanged
		Protocols:             protocols,
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		r, config := requestOf(ctx), t.TLSClientConfig.Clone() // http.Transport has added h2 to it
		if len(r.Header["Upgrade"]) > 0 {                      // it needs HTTP/1.1
			config.NextProtos = nil
		}
		return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(r.Context(), network, address)
	}
	return t
}

// endingWith returns a copy of the request whose dials end with it. Without it, http.Transport goes on to dial after the client
// has canceled the request, so that a later request can use the connection. A client that sends and cancels requests could then
// make it open any number of files, if the upstream is slow to accept connections.
func endingWith(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, r))
}

type requestKey struct{} // of the context of a request to the upstream

// requestOf takes a context that http.Transport has detached from the request's end, but not from its values.
func requestOf(ctx context.Context) *http.Request { return ctx.Value(requestKey{}).(*http.Request) }
