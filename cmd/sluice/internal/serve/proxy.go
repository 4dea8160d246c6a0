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

// upstream is what the proxy stands in front of.
type upstream struct {
	url           *url.URL
	ownHost       bool          // Host is the upstream's, not what the client said
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

func newUpstream(o *Options, log *slog.Logger, failures *prometheus.CounterVec) *upstream {
	for _, status := range [...]int{http.StatusBadGateway, http.StatusGatewayTimeout} { // there from the start
		failures.WithLabelValues(strconv.Itoa(status))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // where the upstream speaks TLS and offers it
	return &upstream{
		url: o.Upstream, ownHost: o.UpstreamHost, maxBody: o.MaxBody, clientTimeout: o.ClientTimeout, bodyRate: bodyRate{o.MinBodyRate, o.BodyGrace}, legacy: o.Legacy,
		log: log, failures: failures,
		transport: &http.Transport{
			// No Proxy: the environment's is for programs that go out, not for what
			// stands beside this one.
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: o.UpstreamTimeout,
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   512,
			IdleConnTimeout:       90 * time.Second,
			DisableCompression:    true, // what the client asks for, the upstream decides
			Protocols:             protocols,
		},
	}
}

// front is the upstream behind limits.
func (u *upstream) front(l *Limits) (http.Handler, error) {
	forwarder, err := newForwarder(l.file)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came: no limit looks at it
			r.SetURL(u.url)
			if !u.ownHost {
				r.Out.Host = r.In.Host
			}
			forwarder.tell(r)
			r.Out.Trailer = nil // no more than names, forged ones too; what they say would be lost
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

// fit refuses requests that no rule need look at, without reading their bodies, and bounds
// bodies of unknown length.
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

// unfit is the problem of a request whose target is no path of the upstream, whose body is
// too long, or whose body is of unknown length if a rule would deny it for that.
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

// fail answers a request that was let through and got no response. Its cost stays spent:
// otherwise a client that can make the upstream fail would not be limited. The answer does
// not wait for the rest of the body.
func (u *upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	var long *http.MaxBytesError
	if bodyUnread(w) {
		earlyreply.Prepare(w, r)
	}
	broken := brokenBody(w)
	switch {
	case errors.As(err, &long):
		u.tooLarge().write(w)
		return
	case broken != nil:
		u.log.Debug("a request body ended early", "error", withoutAddresses(broken.Error()))
		unfinished(broken).write(w)
		return
	case r.Context().Err() != nil:
		// Nobody reads the answer, unless the client has closed no more than its own
		// side. A response that is not written would be an empty 200 to it.
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

// unfinished is the problem of content that came to no end.
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

// plainProblem is a problem that is no more than its status.
func plainProblem(status int, format string, args ...any) *problem {
	p := newProblem("", format, args...)
	p.Type, p.Title, p.Status = "about:blank", http.StatusText(status), status
	return p
}

// keepFields lets the RateLimit fields survive an interim response, behind which the
// proxy clears the header, and keeps them out of trailers.
func keepFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&keeper{ResponseWriter: w, told: maps.Clone(w.Header())}, r)
		sendNoLimits(w.Header())
	})
}

type keeper struct {
	http.ResponseWriter
	told    http.Header // before the upstream was asked
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

// joinLimits puts our items of RateLimit and RateLimit-Policy and those of the upstream on
// one field line, because many clients read only the first line of a field.
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
