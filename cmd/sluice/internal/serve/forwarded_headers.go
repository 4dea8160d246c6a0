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

// forwarder returns the function that sets the headers that tell the upstream the client's address.
// Values from the request are passed on only from a trusted proxy, and only the kind that trusted
// proxies write, Forwarded or X-Forwarded: a client may have forged the other kind. X-Real-IP and
// similar headers from a trusted proxy are passed on; the upstream must know whether its proxies
// write them.
//
// The upstream gets the keys that the rules have read, and no others. Otherwise a client could get a new limit with each value of a
// header or cookie that the upstream does not read. So the function removes other spellings of these headers, and all values but the
// first, because many servers read the last one. It passes such a header on even if Connection names it.
func forwarder(file *config.File) (func(*httputil.ProxyRequest), error) {
	const forwardedFor = "X-Forwarded-For"
	// The headers that are or have keys, by their plain names, and a function for each cookie that is a key.
	keys, cookies := map[string][]string{"authorization": {"Authorization"}, "cookie": {"Cookie"}}, []func(http.Header){}
	for _, rule := range file.Rules {
		for _, field := range rule.By {
			switch field.Kind {
			case config.Header:
				keys[plainName(field.Name)] = append(keys[plainName(field.Name)], field.Name)
			case config.Cookie:
				cookies = append(cookies, keepOne(field.Name))
			}
		}
	}
	client, err := httplimit.ClientIP{Trusted: file.Trusted, Forwarded: file.Forwarded, IPv6Bits: 128}.Key()
	return func(r *httputil.ProxyRequest) {
		peer, err := netip.ParseAddrPort(r.In.RemoteAddr)
		trusted := err == nil && trustedproxy.Contains(file.Trusted, peer.Addr())
		for option := range strings.SplitSeq(strings.Join(r.In.Header["Connection"], ","), ",") {
			if name := http.CanonicalHeaderKey(strings.TrimSpace(option)); slices.Contains(keys[plainName(name)], name) {
				r.Out.Header[name] = r.In.Header[name]
			}
		}
		for name, values := range r.Out.Header {
			if len(values) > 1 && name != "Cookie" && slices.Contains(keys[plainName(name)], name) {
				r.Out.Header[name] = values[:1]
			}
		}
		for _, keep := range cookies {
			keep(r.Out.Header)
		}
		dropForged(r.Out.Header, keys, func(name string) bool { return !trusted || file.Forwarded && strings.HasPrefix(name, "x-forwarded-") })
		var passed []string // httputil has removed them
		switch {
		case trusted && file.Forwarded:
			passed = []string{"Forwarded"}
			r.Out.Header.Set(forwardedFor, strings.TrimSuffix(client(r.In), "/128"))
		case trusted:
			passed = []string{"X-Forwarded-Host", "X-Forwarded-Proto"}
			r.Out.Header[forwardedFor] = r.In.Header[forwardedFor]
		}
		r.SetXForwarded()
		for _, name := range passed {
			if said := r.In.Header[name]; len(said) > 0 {
				r.Out.Header[name] = said
			}
		}
	}, err
}

// keepOne returns a function that removes all cookies with a name but the one that the rules read, if there are several. Some servers
// also read a cookie after a comma or a space in the value of another one, so it removes such a value too.
func keepOne(name string) func(http.Header) {
	key, inner := httplimit.KeyByCookie(name), regexp.MustCompile(`[,\s]`+regexp.QuoteMeta(name)+`\s*=`)
	isRead := func(cookies ...string) bool {
		_, found := key(&http.Request{Header: http.Header{"Cookie": cookies}})
		return found
	}
	return func(h http.Header) {
		count, wanted, kept := 0, isRead(h["Cookie"]...), []string(nil)
		for pair := range strings.SplitSeq(strings.Join(h["Cookie"], ";"), ";") {
			pair = strings.TrimSpace(pair)
			found, _, _ := strings.Cut(pair, "=")
			switch isNamed := strings.TrimSpace(found) == name; {
			case inner.MatchString(pair):
				count = 2
			case isNamed && !(wanted && isRead(pair)):
				count++
			case isNamed:
				kept, wanted = append(kept, pair), false
				count++
			default:
				kept = append(kept, pair)
			}
		}
		if count > 1 {
			h["Cookie"] = []string{strings.Join(kept, "; ")}
		}
	}
}

// dropForged removes headers that mislead the upstream, if forged returns true for the name in lower
// case. It always removes names with other punctuation than -, such as X_Real_IP. Programs that read
// headers from environment variables (CGI, WSGI) treat them as equal. No proxy writes them, except for
// SCRIPT_NAME and PATH_INFO. It always removes Proxy, which such programs may take for HTTP_PROXY, and other spellings of the names in
// keys, in which they could read another key than the rule.
func dropForged(h http.Header, keys map[string][]string, forged func(name string) bool) {
	for name := range h {
		plain := plainName(name)
		isOdd := !strings.EqualFold(name, plain) && plain != "script-name" && plain != "path-info"
		isOther := len(keys[plain]) > 0 && !slices.Contains(keys[plain], name)
		if plain == "proxy" || isOther || misleads(plain) && (isOdd || forged(plain)) {
			delete(h, name)
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
