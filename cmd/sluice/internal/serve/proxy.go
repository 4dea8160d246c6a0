package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/earlyreply"
)

// proxyHandler returns the handler that applies the limits and forwards to the upstream.
func (s *Server) proxyHandler(l *limiters) http.Handler {
	o, forwarding, check := &s.options, newForwarding(l.file), l.file.CheckClient()
	proxy := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: no rule reads it
			r.SetURL(o.Upstream)
			if !o.UpstreamHost {
				r.Out.Host = r.In.Host
			}
			forwarding.tell(r)
			r.Out.Trailer = nil // it has only names, perhaps forged; the values would be lost
		},
		Transport:  sendTimeout{s.transport, o.UpstreamTimeout},
		BufferPool: &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}},
		ErrorLog:   errorLog(s.sampled, "a response failed"),
	}
	settled := l.file.NeedsResponse()
	limited := httplimit.Handler(l.proxy, s.withLimitFields(proxy, settled), httplimit.Options{Bytes: l.byteRules, Legacy: o.Legacy, SettleRules: settled, OnDenied: refuseLimited})
	return o.idleTimeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); errors.Is(err, httplimit.ErrUntrustedPeer) || errors.Is(err, httplimit.ErrForwarding) {
			s.reportForwarding(r, err)
		}
		forwarding.clean(r)
		if p := s.earlyProblem(r); p != nil {
			earlyreply.Prepare(w, r)
			p.write(w)
			return
		}
		if o.MaxBody > 0 && r.ContentLength < 0 {
			r.Body = http.MaxBytesReader(w, r.Body, o.MaxBody)
		}
		if settled {
			r = config.TrackOutcome(r)
		}
		limited.ServeHTTP(w, r)
	}))
}

// refuseLimited writes the problem of a request that a rule denies. If the length of its body is unknown, its cost may be above the capacity
// for that reason alone.
func refuseLimited(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
	if refusal.Status == http.StatusRequestEntityTooLarge && r.ContentLength < 0 {
		plainProblem(http.StatusLengthRequired, "a limit counts bytes, so the request needs Content-Length").write(w)
		return
	}
	httplimit.Problem(w, r, refusal)
}

// earlyProblem returns the problem of a request that is refused before any rule decides: it is malformed, its
// target would bypass rules for paths, or its body is too large. It returns nil if there is none.
func (s *Server) earlyProblem(r *http.Request) *problem {
	fault := requestFault(r)
	switch {
	case r.Method == http.MethodConnect:
		return plainProblem(http.StatusMethodNotAllowed, "this is a reverse proxy, so CONNECT is not allowed")
	case fault != "":
		return plainProblem(http.StatusBadRequest, "%s", fault)
	case strings.Trim(s.options.Upstream.Path, "/") != "" && hasDotDot(r.URL.Path):
		return plainProblem(http.StatusBadRequest, "want a path without .. in it, because .. could leave the path of --upstream")
	case s.options.MaxBody > 0 && r.ContentLength > s.options.MaxBody:
		return s.tooLarge()
	}
	return nil
}

// hasDotDot reports whether some server reads a .. in a decoded path: one that reads \ as /, or one
// that cuts off parameters after a semicolon.
func hasDotDot(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}

func (s *Server) tooLarge() *problem {
	return plainProblem(http.StatusRequestEntityTooLarge, "the request body has more than %d bytes; send a smaller one", s.options.MaxBody)
}

// notRefunded ends the problem of an allowed request that got no response from the upstream.
const notRefunded = "; the cost of the request is not refunded"

// fail writes the response to an allowed request that got none from the upstream. The cost is
// not refunded, except by rules that count only failures of the upstream: otherwise a client that can make the
// upstream fail would not be limited. The response does not wait for the rest of the body.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error, settled bool) {
	unread, broken := bodyState(r)
	if unread {
		earlyreply.Prepare(w, r)
	}
	p := s.failure(r, err, broken)
	if settled { // the rules decide
		p.Detail = strings.TrimSuffix(p.Detail, notRefunded)
	}
	p.write(w)
}

// failure returns the problem of a request that failed with err. broken is the error with which
// its body ended early, or nil.
func (s *Server) failure(r *http.Request, err, broken error) *problem {
	var timeout net.Error
	var failed *net.OpError
	config.SetOutcome(r, config.Abandoned)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return s.tooLarge()
	case broken != nil:
		s.sampled.Debug("a request body ended early", "error", withoutAddresses(broken.Error()))
		if errors.Is(broken, os.ErrDeadlineExceeded) {
			return plainProblem(http.StatusRequestTimeout, "the request body did not arrive, or arrived too slowly"+notRefunded)
		}
		return plainProblem(http.StatusBadRequest, "the request body ended early or is not valid HTTP"+notRefunded)
	case isLost(r):
		return unanswered(http.StatusBadGateway, "the units that the request held are not in the store of the limits any more, so the request was ended before the upstream answered")
	case r.Context().Err() != nil:
		// Usually the client is gone. But it may have closed only its own side, and without
		// a response it would get an empty 200.
		s.reportLeft(err)
		return unanswered(http.StatusBadGateway, "the upstream did not answer")
	}
	config.SetOutcome(r, config.UpstreamFailed)
	args := []any{"upstream", s.options.Upstream.Redacted(), "error", readable.Unquoted(err.Error())}
	status, inTime := http.StatusBadGateway, ""
	if errors.As(err, &timeout) && timeout.Timeout() {
		status, inTime = http.StatusGatewayTimeout, " in time"
	} else if s.options.Upstream.Scheme == "http" && !s.answered.Load() && !(errors.As(err, &failed) && failed.Op == "dial") {
		args = append(args, "remedy", "if the upstream speaks only HTTP/2, as most gRPC servers do, let it offer HTTP/2 over TLS and write https:// in --upstream")
	}
	s.sampled.Warn("the upstream failed", args...)
	s.metrics.upstream.WithLabelValues(strconv.Itoa(status)).Inc()
	return unanswered(status, "the upstream did not answer"+inTime)
}

func (s *Server) reportLeft(err error) {
	s.sampled.Debug("the client closed the connection", "error", withoutAddresses(err.Error()))
}

// unanswered returns the problem of an allowed request to which the upstream has not answered.
func unanswered(status int, why string) *problem {
	p := plainProblem(status, "%s"+notRefunded, why)
	p.Applied = "yes"
	return p
}

// isLost reports whether the request was ended because units that it held under a rule were lost.
func isLost(r *http.Request) bool { return errors.Is(context.Cause(r.Context()), sluice.ErrHoldLost) }

// reportLost logs a request whose held units were lost. Its response may have begun.
func (s *Server) reportLost(r *http.Request) {
	if isLost(r) {
		s.sampled.Warn("the units that a request held are not in the store any more, so the request was ended", "error", context.Cause(r.Context()))
	}
}

// onlyWebSockets removes upgrades to other protocols from a request. Many servers would switch to
// h2c, and the client could then send them requests without limits. An invalid protocol name
// would count as a failure of the upstream.
func onlyWebSockets(h http.Header) {
	delete(h, "Http2-Settings")
	offered := h["Upgrade"] // of a list, a server may choose any protocol
	if len(offered) > 1 || len(offered) == 1 && !strings.EqualFold(offered[0], "websocket") {
		delete(h, "Upgrade") // the proxy then sends no Connection either
	}
}

// withLimitFields returns the handler that adds the RateLimit fields of the header to the response of
// the upstream, or to that of a failure. ReverseProxy would clear them after an interim response. settled says that
// the cost of a request depends on its response.
func (s *Server) withLimitFields(proxy httputil.ReverseProxy, settled bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := maps.Clone(w.Header())
		clear(w.Header())
		onlyWebSockets(r.Header)
		r = endingWith(r)
		defer s.reportLost(r)
		proxy := proxy                 // of this request
		body := io.Closer(http.NoBody) // of its response
		proxy.ModifyResponse = func(response *http.Response) error {
			s.answered.Store(true)
			body = response.Body
			if response.StatusCode < 100 || response.StatusCode > 999 { // net/http panics if it is to send such a status
				return fmt.Errorf("the upstream sent the status %03d", response.StatusCode)
			}
			w.Header()["Content-Type"] = nil // net/http guesses no type then if the upstream sent none
			addLimitFields(response.Header, fields)
			return nil
		}
		proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
			_ = body.Close()            // ReverseProxy does not, after a 101 for another protocol (golang.org/issue/80875)
			if transferOf(r).hijacked { // the client could not get the 101 of the upstream
				s.reportLeft(err)
				return
			}
			maps.Copy(w.Header(), fields)
			s.fail(w, r, err, settled)
		}
		proxy.ServeHTTP(w, r)
	})
}

// addLimitFields puts the fields of the proxy before those of the upstream. It joins the lines of
// RateLimit and RateLimit-Policy, because many clients read only the first line of a field. The legacy fields have one value, so
// those of the limit with less remaining stay, as with several limiters of httplimit.
func addLimitFields(h, fields http.Header) {
	const remaining = "X-Ratelimit-Remaining"
	if own, err := strconv.ParseInt(fields.Get(remaining), 10, 64); err == nil {
		replaced := h
		if upstream, err := strconv.ParseInt(h.Get(remaining), 10, 64); err == nil && upstream < own {
			replaced = fields
		}
		for _, name := range [...]string{"X-Ratelimit-Limit", remaining, "X-Ratelimit-Reset"} {
			delete(replaced, name)
		}
	}
	for name, values := range fields {
		h[name] = slices.Concat(values, h[name])
	}
	for _, name := range [...]string{"Ratelimit", "Ratelimit-Policy"} {
		if lines := h[name]; len(lines) > 1 {
			lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
			h[name] = []string{strings.Join(lines, ", ")}
		}
	}
}

// buffers implements httputil.BufferPool.
type buffers struct{ sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.Pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.Pool.Put((*[bufferSize]byte)(buffer)) }

// requestFault returns what is wrong with a request that net/http has accepted although http.Transport would
// refuse to send it or would change it. It returns "" if the request is valid. Over HTTP/1.1, net/http
// itself refuses most such requests.
func requestFault(r *http.Request) string {
	switch {
	case !config.IsToken(r.Method):
		return "want a method that is one word, such as GET"
	case strings.Contains(r.RequestURI, " "): // would become a part of the request line to the upstream
		return "want a path and a query without spaces, such as /a%20b"
	case r.URL.Opaque != "", // x:login, which would reach the upstream as login
		r.URL.Path != "" && r.URL.Path[0] != '/',                  // *, which would reach the upstream as /*
		r.ProtoMajor > 1 && !strings.HasPrefix(r.RequestURI, "/"): // http://..., which only HTTP/1.1 allows
		return "want a path, such as /login"
	case !config.HasOnly(r.Host, "!$%&'()*+,-.:;=[]_~"):
		return "want a host name without other characters, such as shop.example:8080"
	case slices.ContainsFunc(r.Header["Host"], func(host string) bool { return !strings.EqualFold(host, r.Host) }): // over HTTP/1.1, net/http has removed it
		return "want one host name, but the field Host names another than :authority"
	case !hasRightLength(r):
		return "want a Content-Length that is the length of the body"
	}
	return ""
}

// hasRightLength reports whether Content-Length is absent or a single number, and whether there is a body
// if it is not 0. Over HTTP/2, net/http accepts other values, and takes them as 0.
func hasRightLength(r *http.Request) bool {
	values := r.Header["Content-Length"]
	if len(values) == 0 {
		return true
	}
	length, err := strconv.ParseUint(values[0], 10, 63)
	return err == nil && len(values) == 1 && int64(length) == r.ContentLength
}
