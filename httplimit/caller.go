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

// Caller returns the name of the caller of a request, such as an API key, a session or an
// account. found is false if the request does not have it.
//
// A Caller is not a key, because every client can leave a header out. Choose what happens
// to requests without the name:
//
//	OrIP     the rule limits them by the client's address; the usual choice
//	OrShare  they share one limit, so one client can use it up for all others
//	OrSkip   the rule does not apply to them, so another rule must limit them
//	OrDeny   the rule denies them
//
// [KeyByHeader] and [KeyByCookie] return Callers. A function of your own can be one too.
type Caller func(*http.Request) (name string, found bool)

// KeyByHeader returns the Caller whose name is the first value of a header field. An empty
// value counts as missing. If clients can choose the value, each new value gets a new
// limit. So use a field that is authenticated before, or that your own proxy sets.
func KeyByHeader(name string) Caller {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, bool) {
		if name == "Host" {
			return r.Host, r.Host != "" // net/http moves it there
		}
		if values := r.Header[name]; len(values) > 0 {
			return values[0], values[0] != ""
		}
		return "", false
	}
}

// KeyByCookie returns the Caller whose name is the value of the first cookie with this
// name. An empty value counts as missing. If clients can choose the value, each new value
// gets a new limit.
func KeyByCookie(name string) Caller {
	return func(r *http.Request) (string, bool) {
		cookie, err := r.Cookie(name)
		if err != nil {
			return "", false
		}
		return cookie.Value, cookie.Value != ""
	}
}

// ipTag starts the keys of requests that are limited by address instead of by name.
const ipTag = "ip:"

// OrIP returns a rule's Key: the caller's name, or "ip:" and the client's address if the
// request has no name. ip is a function that [ClientIP].Key returned; OrIP panics if it is
// nil. A name that starts with "ip:" or a quotation mark is quoted, so that no name equals
// the key of an address.
func (c Caller) OrIP(ip func(*http.Request) string) func(*http.Request) string {
	if ip == nil {
		panic("httplimit: OrIP needs a function that returns the address, such as that of ClientIP.Key, got nil")
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

// OrShare returns a rule's Key: the caller's name, or the empty key if the request has no
// name.
func (c Caller) OrShare() func(*http.Request) string {
	return func(r *http.Request) string {
		name, found := c(r)
		if !found {
			return ""
		}
		return name
	}
}

// OrSkip returns the rule, changed so that it does not apply to requests without the
// caller's name. If the rule has no Key, its key is the name.
func (c Caller) OrSkip(rule compose.Rule[*http.Request]) compose.Rule[*http.Request] {
	return c.withPolicyIfMissing(rule, func(algo.Policy) (algo.Policy, error) { return nil, compose.Skip })
}

// OrDeny returns the rule, changed so that it denies requests without the caller's name.
// If the rule has no Key, its key is the name. A denied request pays under no rule. It is
// answered with 429 without Retry-After. [Refusal].Missing is true, so that an
// Options.OnDenied can ask for credentials.
func (c Caller) OrDeny(rule compose.Rule[*http.Request]) compose.Rule[*http.Request] {
	cost := rule.Cost
	rule = c.withPolicyIfMissing(rule, func(p algo.Policy) (algo.Policy, error) { return denyall.Policy{Policy: p}, nil })
	if cost == nil {
		return rule
	}
	rule.Cost = func(r *http.Request) int64 {
		if _, found := c(r); !found {
			return 1 // a cost of 0, as of a request without content, would not be denied
		}
		return cost(r)
	}
	return rule
}

// withPolicyIfMissing returns the rule with missing's policy for requests without the
// caller's name. If the rule is not valid, each decision fails with the error of
// compose.New, because compose.New cannot check the policy in the returned rule. A Spec that
// is not valid stays in the returned rule, so compose.New itself returns the error.
func (c Caller) withPolicyIfMissing(rule compose.Rule[*http.Request], missing func(algo.Policy) (algo.Policy, error)) compose.Rule[*http.Request] {
	named := rule
	named.Name = cmp.Or(rule.Name, "unnamed") // the name may be set later
	_, invalid := compose.New(nil, named)
	policy, policyFor := rule.Policy, rule.PolicyFor
	if p, err := compose.ParseRulePolicy(rule.Spec); err == nil {
		policy, rule.Spec = p, "" // a faulty spec stays, so that compose.New returns its error
	}
	if policyFor == nil {
		policyFor = func(*http.Request) (algo.Policy, error) { return policy, nil }
	}
	if invalid != nil {
		policyFor = func(*http.Request) (algo.Policy, error) { return nil, invalid }
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
