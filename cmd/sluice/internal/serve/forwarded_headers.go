package serve

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

const forwardedFor = "X-Forwarded-For"

// forwarding removes the headers of requests that mislead the upstream or the rules, and tells the upstream the client's address.
type forwarding struct {
	file             *config.File
	client           func(*http.Request) netip.Addr
	headers, cookies map[string][]string // those that are keys of rules, by their plain names
	inner            *regexp.Regexp      // such a cookie in the value of another one
}

func newForwarding(file *config.File) *forwarding {
	f := &forwarding{file: file, client: file.Client(), headers: make(map[string][]string), cookies: make(map[string][]string)}
	add := func(names map[string][]string, name string) {
		names[plainName(name)] = append(names[plainName(name)], name)
	}
	var cookies []string
	for _, rule := range file.Rules {
		for _, field := range rule.By {
			switch field.Kind {
			case config.Cookie:
				add(f.cookies, field.Name)
				add(f.headers, "Cookie")
				cookies = append(cookies, regexp.QuoteMeta(field.Name))
			case config.User:
				add(f.headers, "Authorization")
			case config.Header:
				add(f.headers, field.Name)
			}
		}
	}
	f.inner = regexp.MustCompile(`(?i)(^=+|[,\s])(` + strings.Join(cookies, "|") + `)\s*=`)
	return f
}

func (f *forwarding) trusts(r *http.Request) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return trustedproxy.Contains(f.file.Trusted, peer.Addr())
}

// clean removes headers before the rules read them, so that the upstream reads the same keys. X-Real-IP and similar headers from a trusted
// proxy stay; the upstream must know whether its proxies write them. So does the kind that trusted proxies write, Forwarded or X-Forwarded,
// but not the other kind, because a client may have forged it.
func (f *forwarding) clean(r *http.Request) {
	for name := range connectionFields(r.Header) { // httputil removes them later
		if len(f.headers[plainName(name)]) > 0 {
			delete(r.Header, name)
		}
	}
	if cookies := r.Header["Cookie"]; len(f.headers["cookie"]) > 0 && len(cookies) > 0 {
		r.Header["Cookie"] = []string{f.oneOfEach(strings.Join(cookies, "; "))}
	}
	trusted := f.trusts(r)
	dropForged(r.Header, f.headers, func(name string) bool { return !trusted || f.file.Forwarded && strings.HasPrefix(name, "x-forwarded-") })
}

// oneOfEach returns the cookies, but only one of each key, because programs read cookies in different ways:
//
//   - If several cookies have one name, some programs read the first, and others the last.
//   - Some programs read a value that the rules cannot read.
//   - PHP reads my.session as my_session.
//   - ASP.NET Core finds a cookie after a comma in the value of another one, and ignores letter case.
//   - Python's http.cookies finds one after a space, and old versions of Werkzeug after an empty name.
func (f *forwarding) oneOfEach(cookies string) string {
	if len(f.cookies) == 0 {
		return cookies
	}
	found := make(map[string]bool)
	var kept []string
	for pair := range strings.SplitSeq(cookies, ";") {
		name, _, _ := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		isKept := !f.inner.MatchString(strings.TrimSpace(pair))
		if spellings := f.cookies[plainName(name)]; len(spellings) > 0 {
			_, isReadable := httplimit.KeyByCookie(name)(&http.Request{Header: http.Header{"Cookie": {pair}}})
			isFirst := isReadable && !found[name] && slices.Contains(spellings, name)
			found[name] = found[name] || isFirst
			isKept = isKept && isFirst
		}
		if isKept {
			kept = append(kept, pair)
		}
	}
	return strings.TrimSpace(strings.Join(kept, ";"))
}

// tell sets the headers that tell the upstream the client's address.
func (f *forwarding) tell(r *httputil.ProxyRequest) {
	passed := []string{"X-Forwarded-Host", "X-Forwarded-Proto"} // httputil has removed them, and clean those of peers that are not trusted
	r.Out.Header[forwardedFor] = r.In.Header[forwardedFor]
	if f.file.Forwarded && f.trusts(r.In) {
		passed = []string{"Forwarded"}
		if client := f.client(r.In); client.IsValid() {
			r.Out.Header.Set(forwardedFor, client.String())
		}
	}
	r.SetXForwarded()
	for _, name := range passed {
		if said := r.In.Header[name]; len(said) > 0 {
			r.Out.Header[name] = said
		}
	}
}

// dropForged removes headers that mislead the upstream, if forged returns true for the name in lower
// case. It always removes names with other punctuation than -, such as X_Real_IP. Programs that read
// headers from environment variables (CGI, WSGI) treat them as equal. No proxy writes them, except for
// SCRIPT_NAME and PATH_INFO. It always removes Proxy, which such programs may take for HTTP_PROXY. It keeps only the first line of each
// header in keys, and no other spellings, because programs could read another key there than the rule.
func dropForged(h http.Header, keys map[string][]string, forged func(name string) bool) {
	for name, lines := range h {
		plain := plainName(name)
		isOdd := !strings.EqualFold(name, plain) && plain != "script-name" && plain != "path-info"
		isOther := len(keys[plain]) > 0 && !slices.Contains(keys[plain], name)
		if plain == "proxy" || isOther || misleads(plain) && (isOdd || forged(plain)) {
			delete(h, name)
		} else if len(keys[plain]) > 0 {
			h[name] = lines[:1]
		}
	}
}

// plainName returns a name in lower case, with - for all punctuation.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '-'
	}, name)
}

// misleads reports whether programs are known to read the client's address, the host, the scheme, the path
// or the method from a header, instead of from the connection and the request line. Proxies, content
// delivery networks and frameworks use many names of a few kinds, and some that are of no kind.
func misleads(name string) bool {
	switch name {
	case "x-forward-for", "x-proxyuser-ip", "x-azure-socketip", "x-appengine-user-ip", "x-envoy-external-address",
		"cf-pseudo-ipv4", "cdn-src-ip", "x-coming-from", "coming-from",
		"x-host", "x-proxy-host", "x-scheme", "x-url-scheme", "front-end-https",
		"x-request-uri", "x-request-url", "request-uri", "x-http-destinationurl", "x-http-method",
		"script-name", "path-info", "x-script-name": // gunicorn cuts SCRIPT_NAME off the path
		return true
	}
	var forwarded, changed, client, address, target bool
	for word := range strings.SplitSeq(name, "-") {
		switch word {
		case "forwarded":
			forwarded = true
		case "original", "rewrite", "override":
			changed = true
		case "client", "real", "true", "remote", "connecting", "originating", "viewer":
			client = true
		case "clientip", "realip":
			client, address = true, true
		case "ip", "ipv4", "ipv6", "addr", "address":
			address = true
		case "url", "uri", "path", "query", "method", "host", "scheme", "proto":
			target = true
		}
	}
	return forwarded || client && address || changed && (address || target)
}

// reportForwarding counts and logs a request that may be limited under a wrong address, because the list
// of trusted proxies or a proxy is wrong. It stores nothing about peers, so many peers need no more
// memory.
func (s *Server) reportForwarding(r *http.Request, fault error) {
	reason, message := noAddress, "X-Forwarded-For or Forwarded from a trusted proxy has no client address"
	remedy := "configure each trusted proxy to append the address of its peer; until then such requests are limited by the proxy's address"
	if errors.Is(fault, httplimit.ErrUntrustedPeer) {
		reason, message = untrustedPeer, "ignored X-Forwarded-For or Forwarded from a peer that is not trusted"
		remedy = "if the peer is your own proxy, add its address to trusted in the rules, or to --trust; until then all clients behind it share the limits by ip"
	}
	s.metrics.forwarding.WithLabelValues(reason).Inc()
	peer, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.forwardingLog.Warn(message, "peer", peer, "remedy", remedy)
}
