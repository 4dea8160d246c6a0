package config

import (
	"net"
	"net/http"
	"net/url"
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
		rule.Cost = httplimit.CostByContentLength(unknown)
	case r.Cost.Units != 1:
		rule.Cost = func(*http.Request) int64 { return r.Cost.Units }
	}
	if len(r.Methods) > 0 || len(r.Paths) > 0 {
		rule.Policy, rule.PolicyFor = nil, r.policyFor
	}
	for _, f := range r.MayLack() {
		switch r.Missing {
		case MissingSkip:
			rule = f.caller().OrSkip(rule)
		case MissingDeny:
			rule = f.caller().OrDeny(rule)
		}
	}
	return rule
}

type key = func(*http.Request) string

// key is that of the one field, or of the fields joined; nil if there are none.
func (r *Rule) key(ip key) key {
	var keys []key
	for _, f := range r.By {
		keys = append(keys, r.keyBy(f, ip))
	}
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return keys[0]
	}
	return httplimit.JoinKeys(keys...)
}

func (r *Rule) keyBy(f Field, ip key) key {
	if caller := f.caller(); caller != nil {
		if r.MissingByIP() {
			return caller.OrIP(ip)
		}
		return caller.OrShare()
	}
	switch f.Kind {
	case IP:
		return ip
	case Method:
		return func(r *http.Request) string { return strings.ToUpper(r.Method) }
	case Path:
		return r.pathOf
	}
	return hostOf
}

// hostOf is one spelling too: in small letters, without the port and the point that
// may end it.
func hostOf(r *http.Request) string {
	host := httplimit.KeyByHost(r)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func (r *Rule) policyFor(req *http.Request) (algo.Policy, error) {
	if r.For(req.Method, req.URL) {
		return r.Policy, nil
	}
	return nil, compose.Skip
}

// Applies reports whether the rule decides on the request.
func (r *Rule) Applies(req *http.Request) bool {
	return r.For(req.Method, req.URL) && !(r.Missing == MissingSkip && r.lacks(req))
}

// For reports whether the rule is for such requests. One for GET is for HEAD too. The
// path is decoded; /a//b/, /a/./b, /a;x=1/b and /a/b are the same. Servers read some
// paths differently: to those that know no parameters /a/..;/b lies below /a, and so
// does /a/..%2Fb to those that take the segments of a path apart before they decode
// them, and /a/../b to those that clean none; to the others all are /b. A rule for any
// reading is for it.
func (r *Rule) For(method string, u *url.URL) bool {
	if !r.forMethod(method) {
		return false
	}
	_, ok := r.reading(u)
	return ok
}

// forMethod reports whether the rule is for the method. A rule for GET is for HEAD too, as
// in the patterns of net/http, because both cost the server as much. Letter case does not
// count: HTTP has it that post is not POST, but some servers take it for POST, and nobody
// may escape a limit on them by writing post.
func (r *Rule) forMethod(method string) bool {
	method = strings.ToUpper(method)
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method) ||
		method == http.MethodHead && slices.Contains(r.Methods, http.MethodGet)
}
