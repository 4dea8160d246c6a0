package config

import (
	"errors"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// HTTPRules returns the rules for HTTP requests. A rule with cost: bytes charges unknown for
// a request without a Content-Length. If a response does not report the actual cost, noActual is called with the
// problem, unless it is nil, and the estimate stays charged. For rules with count, see [TrackOutcome].
func (f *File) HTTPRules(unknown int64, noActual func(r *Rule, problem string)) (rules []sluice.Rule[*http.Request]) {
	ip, _ := f.clientIP(f.IPv6Bits).Key() // a File has no invalid options
	client := f.Client()
	for _, r := range f.Rules {
		rules = append(rules, r.http(ip, client, unknown, noActual))
	}
	return rules
}

func (f *File) clientIP(ipv6Bits int) httplimit.ClientIP {
	return httplimit.ClientIP{Trusted: f.Trusted, Forwarded: f.Forwarded, IPv6Bits: ipv6Bits}
}

// CheckClient returns the function of [httplimit.ClientIP.Check].
func (f *File) CheckClient() func(*http.Request) error {
	check, _ := f.clientIP(f.IPv6Bits).Check()
	return check
}

// Client returns the function that finds the address of the client of a request. The address is not valid if there is none, or if a
// trusted proxy sent something that is no address.
func (f *File) Client() func(*http.Request) netip.Addr {
	const all = 128 // bits
	check := f.CheckClient()
	ip, _ := f.clientIP(all).Key()
	return func(r *http.Request) (addr netip.Addr) {
		if !errors.Is(check(r), httplimit.ErrForwarding) { // else the address is that of a proxy
			addr, _ = netip.ParseAddr(strings.TrimSuffix(ip(r), "/128"))
		}
		return addr
	}
}

func (r *Rule) http(ip key, client func(*http.Request) netip.Addr, unknown int64, noActual func(*Rule, string)) sluice.Rule[*http.Request] {
	rule := sluice.Rule[*http.Request]{Name: r.Name, Key: r.key(ip), Policy: r.Policy, Shadow: r.Shadow}
	estimate := func(*http.Request) int64 { return r.Cost.Units }
	if r.Cost.Bytes {
		estimate = httplimit.CostByContentLength(unknown)
	}
	switch {
	case r.NeedsResponse():
		rule.Cost = r.settled(estimate, noActual)
	case r.Cost.Units != 1:
		rule.Cost = estimate
	}
	if !r.IsForAll() {
		rule.Policy = nil
		rule.PolicyFor = func(req *http.Request) (algo.Policy, error) {
			if r.selects(req, client) {
				return r.Policy, nil
			}
			return nil, sluice.Skip
		}
	}
	for _, f := range r.MayLack() {
		switch r.Missing {
		case MissingSkip:
			rule = f.optionalKey().OrSkip(rule)
		case MissingDeny:
			rule = f.optionalKey().OrDeny(rule)
		}
	}
	return rule
}

// settled returns the Cost that is estimate until the request has a response.
func (r *Rule) settled(estimate func(*http.Request) int64, noActual func(*Rule, string)) func(*http.Request) int64 {
	return func(req *http.Request) int64 {
		response, found := httplimit.ResponseTo(req)
		ended := trackedOf(req)
		if found && !r.charges(response.Status, ended) {
			return 0
		}
		if found && r.Cost.Actual != "" && ended.Outcome == Answered {
			cost, problem := r.actualCost(response.Header)
			if problem == "" {
				return cost
			}
			if noActual != nil {
				noActual(r, problem)
			}
		}
		return estimate(req)
	}
}

// actualCost returns the cost that a response reports in its header or in a trailer, or why it reports none.
func (r *Rule) actualCost(h http.Header) (cost int64, problem string) {
	values := slices.Concat(h.Values(r.Cost.Actual), h[http.TrailerPrefix+r.Cost.Actual])
	if len(values) == 0 {
		return 0, "the response does not have the header"
	}
	const bits = 63 // so that the cost is an int64
	n, err := strconv.ParseUint(strings.TrimSpace(values[0]), 10, bits)
	if err != nil || len(values) > 1 {
		return 0, "the header is not one whole number of at least 0"
	}
	return int64(n), ""
}

type key = func(*http.Request) string

// key returns the function that makes the rule's key; nil if there are no fields.
func (r *Rule) key(ip key) key {
	var keys []key
	for _, f := range r.By {
		switch f.Kind {
		case IP:
			keys = append(keys, ip)
		case Method:
			keys = append(keys, func(r *http.Request) string { return strings.ToUpper(r.Method) })
		case Path:
			keys = append(keys, r.pathOf)
		case Host:
			keys = append(keys, hostOf)
		default:
			if r.MissingByIP() {
				keys = append(keys, f.optionalKey().OrIP(ip))
			} else {
				keys = append(keys, f.optionalKey().OrShare())
			}
		}
	}
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return keys[0]
	}
	return httplimit.JoinKeys(keys...)
}

// hostOf normalizes the host: lower case, without the port and without a trailing dot. Some servers take all from the first colon as the
// port.
func hostOf(r *http.Request) string {
	host := httplimit.KeyByHost(r)
	if address, _, ok := strings.Cut(strings.TrimPrefix(host, "["), "]"); ok {
		address, _, _ = strings.Cut(address, "%") // http.Transport removes the zone
		return address
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.TrimSuffix(name, ".")
}

// selects reports whether the method, the path and the client of a request are among those of the rule.
func (r *Rule) selects(req *http.Request, client func(*http.Request) netip.Addr) bool {
	return r.For(req.Method, req.URL) && !r.Except.has(req, client)
}

// IsForAll reports whether the rule applies to requests with any method, path and address.
func (r *Rule) IsForAll() bool {
	return len(r.Methods) == 0 && len(r.Paths) == 0 && len(r.Except.Texts()) == 0
}

// has reports whether one of the lists has the request. The letter case of a method counts. Otherwise a client could make a server read a
// limited request as one of the list.
func (e *Except) has(req *http.Request, client func(*http.Request) netip.Addr) bool {
	return slices.Contains(e.Methods, req.Method) || len(e.Addresses) > 0 && trustedproxy.Contains(e.Addresses, client(req)) || e.hasPath(req.URL)
}

// hasPath reports whether a path matches in all readings. It must have no backslash, which some servers read as /, and no %, because some
// servers decode twice.
func (e *Except) hasPath(u *url.URL) bool {
	if len(e.Paths) == 0 || strings.ContainsAny(u.Path, `\%`) {
		return false
	}
	for path := range allReadings(u) {
		if !matchesAny(e.Paths, path) {
			return false
		}
	}
	return true
}

// For reports whether the rule applies to a method and a URL. A rule for GET applies to HEAD
// too, as in patterns of net/http, because both cost the server as much. Letter case is ignored: in
// HTTP post is not POST, but some servers accept post as POST, so a client could bypass the limit
// otherwise.
//
// Paths are decoded and cleaned: /a//b/, /a/./b, /a;x=1/b and /a/b are equal. Servers
// read some paths in different ways, and the rule applies if it matches any reading:
//
//   - /a/..;/b is below /a for servers without parameters, and /b for others
//   - /a/..%2Fb is below /a for servers that split a path before they decode it, else /b
//   - /a/../b is below /a for servers that do not clean paths, else /b. /a%2F../b is too if they decode it as a
//     whole, as WSGI and ASGI servers do
//   - /a//../b is /a/b for servers that resolve .. before they merge slashes, else /b
//   - //x/a is /a for servers that parse it as a URL with the host x, else /x/a
func (r *Rule) For(method string, u *url.URL) bool {
	method = strings.ToUpper(method)
	if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) &&
		!(method == http.MethodHead && slices.Contains(r.Methods, http.MethodGet)) {
		return false
	}
	_, ok := r.reading(u)
	return ok
}

// pathOf returns the path in the reading that the rule matches. Another reading would let
// clients choose their key: in /1%2Fx/../login, which a server may read as /login, the key
// would depend on the number.
func (r *Rule) pathOf(req *http.Request) string {
	p, _ := r.reading(req.URL)
	return p
}

// reading returns the first reading of a path that the rule matches; ok is false if it
// matches none.
func (r *Rule) reading(u *url.URL) (clean string, ok bool) {
	if len(r.Paths) == 0 {
		return cleanPath(u.Path), true
	}
	for clean = range allReadings(u) {
		if matchesAny(r.Paths, clean) {
			return clean, true
		}
	}
	return "", false
}

// allReadings returns the readings of a path, also those with a host in it.
func allReadings(u *url.URL) iter.Seq[string] {
	return func(yield func(string) bool) {
		urls := []*url.URL{u}
		if strings.HasPrefix(u.Path, "//") {
			urls = append(urls, withoutHost(u))
		}
		for _, u := range urls {
			for clean := range readings(u) {
				if !yield(clean) {
					return
				}
			}
		}
	}
}

// withoutHost returns the URL that a server reads if it takes //x/login for the host x and the path /login, as many URL parsers do.
func withoutHost(u *url.URL) *url.URL {
	_, rest, _ := strings.Cut(strings.TrimLeft(u.EscapedPath(), "/"), "/")
	return &url.URL{Path: decoded("/" + rest), RawPath: "/" + rest}
}

// readings returns the readings of a path without parameters, and then with them: decoded as a whole,
// decoded segment by segment, and decoded after only unencoded .. segments were resolved. If parameters are
// removed before the path is decoded as a whole, an encoded / can be in them. In the last readings, .. is a name
// like any other, as for servers that clean nothing.
func readings(u *url.URL) iter.Seq[string] {
	return func(yield func(string) bool) {
		escaped := u.Path
		if u.RawPath != "" { // else nothing is encoded that need not be, such as / and .
			escaped = u.EscapedPath()
		}
		cleaned := func(p string) bool {
			return yield(path.Clean("/"+p)) && (!strings.Contains(p, "//") || !strings.Contains(p, "..") || yield(unmerged(p)))
		}
		all := func(whole, escaped string) bool {
			return cleaned(whole) && (whole == escaped || cleaned(bySegment(escaped)) && yield(bySegment(path.Clean("/"+escaped))))
		}
		if !all(withoutParameters(u.Path), withoutParameters(escaped)) {
			return
		}
		if strings.Contains(u.Path, ";") && !(all(u.Path, escaped) && yield(path.Clean("/"+decoded(withoutParameters(u.EscapedPath()))))) {
			return
		}
		if strings.Contains(u.Path, "..") {
			raw := u.EscapedPath()
			_ = yield(bySegment(raw)) && yield(u.Path) && yield(decoded(path.Clean("/"+raw)))
		}
	}
}

// unmerged returns the path that a server reads if it resolves .. before it merges slashes (RFC 3986, section 5.2.4). Meanwhile empty
// segments have a name. In Go 1.25, URL.ResolveReference needs quadratic time.
func unmerged(p string) string {
	const empty = "/\x00"
	p = strings.ReplaceAll(strings.ReplaceAll(p, "//", empty+"/"), "//", empty+"/") // twice, for ///
	return path.Clean("/" + strings.ReplaceAll(path.Clean("/"+p), empty, ""))
}

var encodedSlash = strings.NewReplacer("%2f", "%252F", "%2F", "%252F")

// bySegment decodes the segments of an escaped path. An encoded / stays %2F, which no
// pattern has.
func bySegment(escaped string) string { return decoded(encodedSlash.Replace(escaped)) }

func decoded(escaped string) string {
	p, _ := url.PathUnescape(escaped) // URL.EscapedPath makes no mistakes
	return p
}

// cleanPath normalizes a path, so that //login, /x/../login/ and /login;a=1 do not bypass a
// limit on /login. It keeps letter case and backslashes, because for most servers they make
// different paths.
func cleanPath(p string) string {
	return path.Clean("/" + withoutParameters(p))
}

var parameters = regexp.MustCompile(`;[^/]*`)

// withoutParameters cuts each segment at its semicolon, as servers do before they clean.
func withoutParameters(p string) string {
	if !strings.Contains(p, ";") { // a regular expression needs longer to find that out
		return p
	}
	return parameters.ReplaceAllString(p, "")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, path) })
}

// matches reports whether path equals the pattern, or is below it if the pattern ends in /*.
func matches(pattern, path string) bool {
	tree, below := strings.CutSuffix(pattern, "/*")
	if !below {
		return path == pattern
	}
	rest, ok := strings.CutPrefix(path, tree)
	return ok && (rest == "" || rest[0] == '/')
}
