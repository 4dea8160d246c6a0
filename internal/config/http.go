package config

import (
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
)

// HTTPRules are the rules of the file for requests. A rule whose cost is in bytes
// takes unknown of a request that does not tell its length.
func (f *File) HTTPRules(unknown int64) ([]compose.Rule[*http.Request], error) {
	ip, err := httplimit.ClientIP{Trusted: f.Trusted, Forwarded: f.Forwarded, IPv6Bits: f.IPv6Bits}.Key()
	if err != nil {
		return nil, err
	}
	var rules []compose.Rule[*http.Request]
	for i := range f.Rules {
		rules = append(rules, f.Rules[i].http(ip, unknown))
	}
	return rules, nil
}

func (r *Rule) http(ip key, unknown int64) compose.Rule[*http.Request] {
	rule := compose.Rule[*http.Request]{Name: r.Name, Key: r.key(ip), Policy: r.Policy, Shadow: r.Shadow}
	switch {
	case r.Cost.Bytes:
		rule.Cost = httplimit.ContentLength(unknown)
	case r.Cost.Units != 1:
		rule.Cost = func(*http.Request) int64 { return r.Cost.Units }
	}
	if len(r.Methods) > 0 || len(r.Paths) > 0 {
		rule.Policy, rule.Choose = nil, r.choose
	}
	return rule
}

type key = func(*http.Request) string

// key is that of the one field, or of the fields joined; nil if there are none.
func (r *Rule) key(ip key) key {
	var keys []key
	for _, f := range r.By {
		keys = append(keys, f.key(ip))
	}
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return keys[0]
	}
	return httplimit.Join(keys...)
}

func (f Field) key(ip key) key {
	switch f.Kind {
	case IP:
		return ip
	case User:
		return userOf
	case Method:
		return func(r *http.Request) string { return strings.ToUpper(r.Method) }
	case Path:
		return pathOf
	case Host:
		return hostOf
	case Cookie:
		return httplimit.Cookie(f.Name)
	}
	return httplimit.Header(f.Name)
}

func userOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

// hostOf is one spelling too: in small letters, without the port and the point that
// may end it.
func hostOf(r *http.Request) string {
	host := httplimit.Host(r)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func pathOf(r *http.Request) string { return cleanPath(r.URL.Path) }

// cleanPath is one spelling for what servers take for the same path, so that nobody
// escapes a limit by //login, /x/../login/ or /login;a=1. Letters stay large or small,
// and a \ stays what it is: for most servers these are different paths.
func cleanPath(p string) string {
	return path.Clean("/" + withoutParameters(p))
}

// withoutParameters cuts each segment at its ;, as servers do before they clean.
func withoutParameters(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	segments := strings.Split(p, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}

func (r *Rule) choose(req *http.Request) algo.Policy {
	if r.For(req.Method, req.URL.Path) {
		return r.Policy
	}
	return nil
}

// For reports whether the rule is for such requests. One for GET is for HEAD too. The
// path is decoded; /a//b/, /a/./b, /a;x=1/b and /a/b are the same. To servers that know
// no parameters /a/..;/b lies below /a, to the others it is /b: a rule for either is
// for it.
func (r *Rule) For(method, p string) bool {
	if !r.forMethod(method) {
		return false
	}
	if len(r.Paths) == 0 {
		return true
	}
	return r.covers(cleanPath(p)) || strings.Contains(p, ";") && r.covers(path.Clean("/"+p))
}

func (r *Rule) covers(clean string) bool {
	return slices.ContainsFunc(r.Paths, func(pattern string) bool { return matches(pattern, clean) })
}

// forMethod takes HEAD for GET, as the patterns of net/http do: it is the same
// request, and costs whoever answers it as much. It takes post for POST, as many
// servers do.
func (r *Rule) forMethod(method string) bool {
	method = strings.ToUpper(method)
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method) ||
		method == http.MethodHead && slices.Contains(r.Methods, http.MethodGet)
}

// matches reports whether path is that of the pattern, or below it if the pattern
// ends in /*.
func matches(pattern, path string) bool {
	tree, below := strings.CutSuffix(pattern, "/*")
	if !below {
		return path == pattern
	}
	rest, ok := strings.CutPrefix(path, tree)
	return ok && (rest == "" || rest[0] == '/')
}
