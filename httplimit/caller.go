package httplimit

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// Caller finds the name of the caller in a request: an API key, a session, an account.
// found is false if the request does not have it.
//
// A Caller is not a key yet. Anybody can leave a header out, so a rule must say what
// happens to requests without it:
//
//	OrIP     the rule limits them by the client's address. Prefer this one
//	OrShare  they all share one limit, which one client can use up for the others
//	OrSkip   the rule does not apply to them, so another rule must limit them
//	OrDeny   the rule denies them
//
// [KeyByHeader] and [KeyByCookie] are Callers, and so is any function of this type.
type Caller func(*http.Request) (name string, found bool)

// KeyByHeader is the first value of a header field. A client that may choose its value freely
// has a new limit with each value, so use it for fields that were checked before, or that
// a proxy of yours sets. A field that is empty counts as missing.
func KeyByHeader(name string) Caller {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, bool) {
		if name == "Host" {
			return r.Host, r.Host != "" // the server moves it there
		}
		if values := r.Header[name]; len(values) > 0 {
			return values[0], values[0] != ""
		}
		return "", false
	}
}

// KeyByCookie is the value of the first cookie of that name. As with [KeyByHeader], clients choose
// it freely unless something checks it, and an empty one counts as missing.
func KeyByCookie(name string) Caller {
	return func(r *http.Request) (string, bool) {
		cookie, err := r.Cookie(name)
		if err != nil {
			return "", false
		}
		return cookie.Value, cookie.Value != ""
	}
}

// ipTag begins the keys of requests that are limited by address in place of a name.
const ipTag = "ip:"

// OrIP is a key: the caller's name, or "ip:" and the client's address if the request does
// not have the name. Make ip by [ClientIP].Key. No name can pass for an address: one that
// begins with "ip:" or a quotation mark is quoted.
func (c Caller) OrIP(ip func(*http.Request) string) func(*http.Request) string {
	if ip == nil {
		panic("httplimit: OrIP needs a key by address, from ClientIP.Key")
	}
	return func(r *http.Request) string {
		name, found := c(r)
		switch {
		case !found:
			return ipTag + ip(r)
		case strings.HasPrefix(name, ipTag) || strings.HasPrefix(name, `"`):
			return strconv.Quote(name)
		}
		return name
	}
}

// OrShare is a key: the caller's name, or the empty key, which all requests without the
// name share.
func (c Caller) OrShare() func(*http.Request) string {
	return func(r *http.Request) string {
		name, found := c(r)
		if !found {
			return ""
		}
		return name
	}
}

// OrSkip returns the rule, by the caller's name unless it has a Key. The rule does not
// apply to requests without the name.
func (c Caller) OrSkip(rule compose.Rule[*http.Request]) compose.Rule[*http.Request] {
	return c.choosing(rule, func(algo.Policy) (algo.Policy, error) { return nil, compose.Skip })
}

// OrDeny returns the rule, by the caller's name unless it has a Key. It denies requests
// without the name, which then pay under no rule. They are answered 429 without
// Retry-After, and [Refusal].Missing is set, for an Options.OnDenied that would rather ask
// for credentials.
func (c Caller) OrDeny(rule compose.Rule[*http.Request]) compose.Rule[*http.Request] {
	cost := rule.Cost
	rule = c.choosing(rule, func(p algo.Policy) (algo.Policy, error) { return denyall.Policy{Policy: p}, nil })
	if cost == nil {
		return rule
	}
	rule.Cost = func(r *http.Request) int64 {
		if _, found := c(r); !found {
			return 1 // a request without content, which costs nothing, is denied too
		}
		return cost(r)
	}
	return rule
}

// choosing returns the rule with missing in place of its policy where the request does
// not have the name. If the policy of the rule is not valid, each decision fails with the
// error that compose.New would return. If its Spec is not valid, compose.New returns the
// error.
func (c Caller) choosing(rule compose.Rule[*http.Request], missing func(algo.Policy) (algo.Policy, error)) compose.Rule[*http.Request] {
	named := rule
	named.Name = cmp.Or(rule.Name, "unnamed") // the name may be set later
	_, faulty := compose.New(nil, named)
	policy, policyFor := rule.Policy, rule.PolicyFor
	if p, err := compose.ParseRulePolicy(rule.Spec); err == nil {
		policy, rule.Spec = p, "" // a faulty spec stays, and compose.New returns its error
	}
	if policyFor == nil {
		policyFor = func(*http.Request) (algo.Policy, error) { return policy, nil }
	}
	if faulty != nil {
		policyFor = func(*http.Request) (algo.Policy, error) { return nil, faulty }
	}
	rule.Policy, rule.PolicyFor = nil, func(r *http.Request) (algo.Policy, error) {
		p, err := policyFor(r)
		if _, found := c(r); p == nil || err != nil || found {
			return p, err
		}
		return missing(p)
	}
	if rule.Key == nil {
		rule.Key = c.OrShare()
	}
	return rule
}
