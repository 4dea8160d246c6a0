package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
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

// reportHTTP2 is called when a request to the upstream has failed without a response. If the upstream has never
// answered and accepts HTTP/2 without TLS, it logs that. Only one request at a time finds this out.
func (s *Server) reportHTTP2(r *http.Request) {
	if s.options.Upstream.Scheme != "http" || s.answered.Load() || !s.probing.TryLock() {
		return
	}
	defer s.probing.Unlock()
	if s.acceptsHTTP2(r.Context()) {
		s.sampled.Warn("the upstream accepts HTTP/2 without TLS (h2c), and has answered no HTTP/1.1 request; sluice sends only HTTP/1.1 without TLS",
			"upstream", s.options.Upstream.Redacted(),
			"remedy", "if it speaks only HTTP/2, as most gRPC servers do, let it offer HTTP/2 over TLS and write https:// in --upstream, or let it also accept HTTP/1.1")
	}
}

// http2ProbeTime is how long the upstream may take to accept HTTP/2.
const http2ProbeTime = time.Second

// acceptsHTTP2 opens a connection as an HTTP/2 client does, with a preface and a SETTINGS frame (RFC 9113,
// section 3.4). It reports whether the upstream sends a SETTINGS frame.
func (s *Server) acceptsHTTP2(ctx context.Context) bool {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // length, type, flags, stream
	upstream := s.options.Upstream
	conn, err := s.transport.DialContext(ctx, "tcp", net.JoinHostPort(upstream.Hostname(), cmp.Or(upstream.Port(), "80")))
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(http2ProbeTime))
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings) // the read fails too
	head := make([]byte, len(settings))
	_, err = io.ReadFull(conn, head)
	return err == nil && string(head[3:]) == settings[3:]
}
