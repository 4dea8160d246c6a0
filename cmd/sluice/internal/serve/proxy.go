package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/earlyreply"
)

// upstream is the program behind the proxy.
type upstream struct {
	*Options
	transport     *http.Transport
	log           *slog.Logger
	forwardingLog *slog.Logger // samples
	metrics       *metrics
}

const dialTimeout = 10 * time.Second

func newUpstream(s *Server) *upstream {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // if the upstream offers it over TLS
	return &upstream{
		Options: &s.options, log: s.sampled, forwardingLog: sampleLog(s.log, forwardingSamples), metrics: s.metrics,
		transport: &http.Transport{
			// No Proxy: HTTP_PROXY is for requests to the outside, not to the upstream.
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: s.options.UpstreamTimeout,
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
	forward, err := forwarder(l.file)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: no rule reads it
			r.SetURL(u.Upstream)
			if !u.UpstreamHost {
				r.Out.Host = r.In.Host
			}
			forward(r)
			r.Out.Trailer = nil // it has only names, perhaps forged; the values would be lost
		},
		Transport:      sendTimeout{u.transport, u.UpstreamTimeout},
		BufferPool:     newBuffers(),
		ModifyResponse: addLimitFields,
		ErrorHandler:   u.fail,
		ErrorLog:       errorLog(u.log, "a response failed"),
	}
	limited := httplimit.Handler(l.Proxy, holdLimitFields(onlyWebSockets(proxy)), httplimit.Options{Bytes: l.byteRules, Legacy: u.Legacy})
	watched, err := u.watch(l.file, u.fit(l, limited))
	return idleTimeout(u.ClientTimeout, bodyRate{u.MinBodyRate, u.BodyGrace}, watched), err
}

// fit refuses invalid requests before any rule decides, without reading their bodies. It limits
// the size of bodies of unknown length.
func (u *upstream) fit(l *Limits, next http.Handler) http.Handler {
	return refuse(func(w http.ResponseWriter, r *http.Request) *problem {
		p := u.unfit(l, r)
		if p != nil {
			earlyreply.Prepare(w, r)
		} else if u.MaxBody > 0 && r.ContentLength < 0 {
			r.Body = http.MaxBytesReader(w, r.Body, u.MaxBody)
		}
		return p
	}, next)
}

// unfit returns the problem of a request with a target that would bypass rules for paths, a body
// that is too large, or a body of unknown length that a rule would deny; nil if there is none.
func (u *upstream) unfit(l *Limits, r *http.Request) *problem {
	switch {
	case r.Method == http.MethodConnect:
		return plainProblem(http.StatusMethodNotAllowed, "this is a reverse proxy, so CONNECT is not allowed")
	case r.URL.Opaque != "": // x:login, which would reach the upstream as login
		return plainProblem(http.StatusBadRequest, "want a path, such as /login")
	case strings.Trim(u.Upstream.Path, "/") != "" && climbs(r.URL.Path):
		return plainProblem(http.StatusBadRequest, "want a path without .. in it, because .. could leave the path of --upstream")
	case l.needsLength(r):
		return plainProblem(http.StatusLengthRequired, "a limit counts bytes, so the request needs Content-Length")
	case u.MaxBody > 0 && r.ContentLength > u.MaxBody:
		return u.tooLarge()
	}
	return nil
}

// climbs reports whether some server reads a .. in a decoded path: one that reads \ as /, or one
// that cuts off parameters after a semicolon.
func climbs(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}

func (u *upstream) tooLarge() *problem {
	return plainProblem(http.StatusRequestEntityTooLarge, "the request body has more than %d bytes; send a smaller one", u.MaxBody)
}

// fail writes the response to an allowed request that got none from the upstream. The cost is
// not refunded: otherwise a client that can make the upstream fail would not be limited. The
// response does not wait for the rest of the body.
func (u *upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	maps.Copy(w.Header(), heldLimitFields(r))
	unread, broken := bodyState(r)
	if unread {
		earlyreply.Prepare(w, r)
	}
	u.failure(r, err, broken).write(w)
}

// failure returns the problem of a request that failed with err. broken is the error with which
// its body ended early, or nil.
func (u *upstream) failure(r *http.Request, err, broken error) *problem {
	var timeout net.Error
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return u.tooLarge()
	case broken != nil:
		u.log.Debug("a request body ended early", "error", withoutAddresses(broken.Error()))
		if errors.Is(broken, os.ErrDeadlineExceeded) {
			return plainProblem(http.StatusRequestTimeout, "the request body did not arrive, or arrived too slowly; the cost of the request is not refunded")
		}
		return plainProblem(http.StatusBadRequest, "the request body ended early or is not valid HTTP; the cost of the request is not refunded")
	case r.Context().Err() != nil:
		// Usually the client is gone. But it may have closed only its own side, and without
		// a response it would get an empty 200.
		u.log.Debug("the client closed the connection", "error", withoutAddresses(err.Error()))
		return unanswered(http.StatusBadGateway, "")
	}
	u.log.Warn("the upstream failed", "upstream", u.Upstream.Redacted(), "error", unquoted(err.Error()))
	status, inTime := http.StatusBadGateway, ""
	if errors.As(err, &timeout) && timeout.Timeout() {
		status, inTime = http.StatusGatewayTimeout, " in time"
	}
	u.metrics.upstream.WithLabelValues(strconv.Itoa(status)).Inc()
	return unanswered(status, inTime)
}

func unanswered(status int, inTime string) *problem {
	p := plainProblem(status, "the upstream did not answer%s; the cost of the request is not refunded", inTime)
	p.Paid = "yes"
	return p
}

// onlyWebSockets removes upgrades to other protocols from requests. Many servers would switch to
// h2c, and the client could then send them requests without limits. An invalid protocol name
// would count as a failure of the upstream.
func onlyWebSockets(next http.Handler) http.Handler {
	const settings = "Http2-Settings"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offered := r.Header["Upgrade"] // of a list, a server may choose any protocol
		other := len(offered) > 1 || len(offered) == 1 && !strings.EqualFold(offered[0], "websocket")
		if other || r.Header[settings] != nil {
			r = r.WithContext(r.Context()) // do not change the server's own request
			r.Header = maps.Clone(r.Header)
			delete(r.Header, settings)
			if other {
				delete(r.Header, "Upgrade") // the proxy then sends no Connection either
			}
		}
		next.ServeHTTP(w, r)
	})
}

type limitFieldsKey struct{} // of the context of a request

// holdLimitFields moves the RateLimit fields from the header to the context, from where they are added
// to the response of the upstream. ReverseProxy would clear them after an interim response.
//
// Trailers cannot have newer values, so these fields are removed from trailers, announced or not.
func holdLimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := maps.Clone(w.Header())
		clear(w.Header())
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), limitFieldsKey{}, held)))
		maps.DeleteFunc(w.Header(), func(name string, _ []string) bool {
			trailer, ok := strings.CutPrefix(name, http.TrailerPrefix)
			return ok && isLimitField(trailer)
		})
	})
}

func heldLimitFields(r *http.Request) http.Header {
	held, _ := r.Context().Value(limitFieldsKey{}).(http.Header)
	return held
}

// addLimitFields puts the fields of the proxy before those of the upstream. It joins the lines of
// RateLimit and RateLimit-Policy, because many clients read only the first line of a field.
func addLimitFields(response *http.Response) error {
	h := response.Header
	for name, values := range heldLimitFields(response.Request) {
		h[name] = slices.Concat(values, h[name])
	}
	for _, name := range [...]string{"Ratelimit", "Ratelimit-Policy"} {
		if lines := h[name]; len(lines) > 1 {
			lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
			h[name] = []string{strings.Join(lines, ", ")}
		}
	}
	maps.DeleteFunc(response.Trailer, func(name string, _ []string) bool { return isLimitField(name) })
	return nil
}

func isLimitField(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "ratelimit") || strings.HasPrefix(name, "x-ratelimit") || name == "retry-after"
}

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
