package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/earlyreply"
)

// upstream is the program behind the proxy, with the settings of the proxy.
type upstream struct {
	url           *url.URL
	ownHost       bool          // send the upstream's host name, not the client's Host
	maxBody       int64         // 0: no limit
	clientTimeout time.Duration // see idleTimeout
	bodyRate      bodyRate
	legacy        bool
	transport     *http.Transport
	log           *slog.Logger
	failures      *prometheus.CounterVec
	forwarding    *forwardingMonitor
}

const dialTimeout = 10 * time.Second

func newUpstream(s *Server) *upstream {
	o := &s.options
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // if the upstream offers it over TLS
	return &upstream{
		url: o.Upstream, ownHost: o.UpstreamHost, maxBody: o.MaxBody, clientTimeout: o.ClientTimeout, bodyRate: bodyRate{o.MinBodyRate, o.BodyGrace}, legacy: o.Legacy,
		log: s.sampled, failures: s.metrics.upstream,
		forwarding: &forwardingMonitor{sampleLog(s.log, forwardingSamples), s.metrics.forwarding},
		transport: &http.Transport{
			// No Proxy: HTTP_PROXY is for requests to the outside, not to the upstream.
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: o.UpstreamTimeout,
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   512,
			IdleConnTimeout:       90 * time.Second,
			DisableCompression:    true, // the client's Accept-Encoding goes to the upstream unchanged
			Protocols:             protocols,
		},
	}
}

// front returns the handler that applies the limits and forwards to the upstream.
func (u *upstream) front(l *Limits) (http.Handler, error) {
	forwarder, err := newForwarder(l.file)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: no rule reads it
			r.SetURL(u.url)
			if !u.ownHost {
				r.Out.Host = r.In.Host
			}
			forwarder.tell(r)
			r.Out.Trailer = nil // it has only names, perhaps forged; the values would be lost
		},
		Transport:    u.transport,
		BufferPool:   new(buffers),
		ErrorHandler: u.fail,
		ErrorLog:     errorLog(u.log, "a response failed"),
	}
	limited := httplimit.Handler(l.Proxy, keepFields(onlyWebSockets(proxy)), httplimit.Options{Bytes: l.bytes(), Legacy: u.legacy})
	watched, err := u.forwarding.watch(l.file, u.fit(l, limited))
	return idleTimeout(u.clientTimeout, u.bodyRate, watched), err
}

// fit refuses invalid requests before any rule decides, without reading their bodies. It limits
// the size of bodies of unknown length.
func (u *upstream) fit(l *Limits, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := u.unfit(l, r); p != nil {
			earlyreply.Prepare(w, r)
			p.write(w)
			return
		}
		if u.maxBody > 0 && r.ContentLength < 0 {
			r.Body = http.MaxBytesReader(w, r.Body, u.maxBody)
		}
		next.ServeHTTP(w, r)
	})
}

// unfit returns the problem of a request with an invalid target, a body that is too large, or a
// body of unknown length that a rule would deny; nil if there is none.
func (u *upstream) unfit(l *Limits, r *http.Request) *problem {
	wrong := u.badTarget(r.URL)
	switch {
	case r.Method == http.MethodConnect:
		return plainProblem(http.StatusMethodNotAllowed, "this is a reverse proxy, so CONNECT is not allowed")
	case wrong != "":
		return plainProblem(http.StatusBadRequest, "%s", wrong)
	case l.needsLength(r):
		return plainProblem(http.StatusLengthRequired, "a limit counts bytes, so the request needs Content-Length")
	case u.maxBody > 0 && r.ContentLength > u.maxBody:
		return u.tooLarge()
	}
	return nil
}

func (u *upstream) tooLarge() *problem {
	return plainProblem(http.StatusRequestEntityTooLarge, "the request body has more than %d bytes; send a smaller one", u.maxBody)
}

// fail writes the response to an allowed request that got none from the upstream. The cost is
// not refunded: otherwise a client that can make the upstream fail would not be limited. The
// response does not wait for the rest of the body.
func (u *upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	var long *http.MaxBytesError
	unread, broken := bodyState(r)
	if unread {
		earlyreply.Prepare(w, r)
	}
	switch {
	case errors.As(err, &long):
		u.tooLarge().write(w)
		return
	case broken != nil:
		u.log.Debug("a request body ended early", "error", withoutAddresses(broken.Error()))
		unfinished(broken).write(w)
		return
	case r.Context().Err() != nil:
		// Usually the client is gone. But it may have closed only its own side, and without
		// a response it would get an empty 200.
		u.log.Debug("the client closed the connection", "error", withoutAddresses(err.Error()))
		unanswered(http.StatusBadGateway).write(w)
		return
	}
	u.log.Warn("the upstream failed", "upstream", u.url.Redacted(), "error", unquoted(err.Error()))
	status := http.StatusBadGateway
	if isTimeout(err) {
		status = http.StatusGatewayTimeout
	}
	u.failures.WithLabelValues(strconv.Itoa(status)).Inc()
	unanswered(status).write(w)
}

// unfinished returns the problem of a request body that ended early.
func unfinished(err error) *problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return plainProblem(http.StatusRequestTimeout, "the request body did not arrive, or arrived too slowly; the cost of the request is not refunded")
	}
	return plainProblem(http.StatusBadRequest, "the request body ended early or is not valid HTTP; the cost of the request is not refunded")
}

func unanswered(status int) *problem {
	inTime := ""
	if status == http.StatusGatewayTimeout {
		inTime = " in time"
	}
	p := plainProblem(status, "the upstream did not answer%s; the cost of the request is not refunded", inTime)
	p.Paid = "yes"
	return p
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// plainProblem returns a problem of the type about:blank.
func plainProblem(status int, format string, args ...any) *problem {
	p := newProblem("", format, args...)
	p.Type, p.Title, p.Status = "about:blank", http.StatusText(status), status
	return p
}

// keepFields restores the RateLimit fields after an interim response, for which ReverseProxy
// clears the header, and removes them from trailers.
func keepFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&keeper{ResponseWriter: w, told: maps.Clone(w.Header())}, r)
		sendNoLimits(w.Header())
	})
}

type keeper struct {
	http.ResponseWriter
	told    http.Header // the header before the request went to the upstream
	cleared bool
}

// Unwrap is for http.ResponseController.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (k *keeper) WriteHeader(status int) {
	announceNoLimits(k.Header())
	switch {
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		k.cleared = true
	case k.cleared:
		h := k.Header()
		for name, values := range k.told {
			h[name] = append(values[:len(values):len(values)], h[name]...)
		}
		k.cleared = false
	}
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		joinLimits(k.Header())
	}
	k.ResponseWriter.WriteHeader(status)
}

// joinLimits joins the RateLimit and RateLimit-Policy of the proxy and of the upstream into one
// line each, because many clients read only the first line of a field.
func joinLimits(h http.Header) {
	for _, name := range [...]string{"Ratelimit", "Ratelimit-Policy"} {
		if lines := h[name]; len(lines) > 1 {
			lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == "" })
			h[name] = []string{strings.Join(lines, ", ")}
		}
	}
}

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return buffer[:]
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
