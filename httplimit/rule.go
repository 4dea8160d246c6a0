package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// KeyByPathValue returns the OptionalKey that is the PathValue of the request for a wildcard. It is missing if the pattern has
// no such wildcard, or if the limiter is in front of the router.
func KeyByPathValue(wildcard string) OptionalKey {
	return func(r *http.Request) (string, bool) {
		value := r.PathValue(wildcard)
		return value, value != ""
	}
}

// KeyByPattern returns the OptionalKey that is the Pattern of the request, such as "GET /orders/{id}". It is missing if the
// limiter is in front of the router, or if the router does not set it as http.ServeMux does. For such a router, write an
// OptionalKey of your own.
func KeyByPattern() OptionalKey {
	return func(r *http.Request) (string, bool) { return r.Pattern, r.Pattern != "" }
}

// KeyByHost is a rule's Key: the host of the request in lower case, without a final dot, and on a client without the default
// port of the scheme. On a server, the client chooses the host and the port. Without a host, as in HTTP/1.0, the key is empty.
func KeyByHost(r *http.Request) string {
	host, scheme := r.Host, "" // on a server
	if r.URL != nil && r.URL.Host != "" {
		host, scheme = r.URL.Host, strings.ToLower(r.URL.Scheme)
	}
	port := (&url.URL{Host: host}).Port()
	name := strings.TrimSuffix(strings.ToLower(strings.TrimSuffix(host, ":"+port)), ".")
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return name
	}
	return name + ":" + port
}

// JoinKeys returns a rule's Key that consists of several keys. It quotes them, so two different lists never give the same key.
// It panics without functions, or if one of them is nil.
func JoinKeys(keys ...func(*http.Request) string) func(*http.Request) string {
	if len(keys) == 0 {
		panic("httplimit: JoinKeys needs at least one key")
	}
	for i, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("httplimit: key %d of JoinKeys must not be nil", i))
		}
	}
	return func(r *http.Request) string {
		quoted := make([]string, len(keys))
		for i, key := range keys {
			quoted[i] = strconv.Quote(key(r))
		}
		return strings.Join(quoted, " ")
	}
}

// CostByContentLength returns a rule's Cost: the length of the request's content in bytes, or unknown if the request does not
// say it. Let unknown be the most bytes that the handler reads, and enforce it by http.MaxBytesReader; on a client, the most
// bytes that are sent. Over net/http/fcgi, which does not tell an unknown length from none, a request without content costs unknown
// too. CostByContentLength panics if unknown is negative.
func CostByContentLength(unknown int64) func(*http.Request) int64 {
	requireCost(unknown)
	return func(r *http.Request) int64 {
		if r.ContentLength < 0 || r.ContentLength == 0 && r.RequestURI == "" && hasBody(r) { // 0 is an unknown length on a client only
			return unknown
		}
		return r.ContentLength
	}
}

// CostByMethod returns a rule's Cost that depends on the request's method, such as "POST". other is the cost of all other
// methods. Make it high, because clients can invent methods. CostByMethod panics if a cost is negative.
func CostByMethod(costs map[string]int64, other int64) func(*http.Request) int64 {
	requireCost(other)
	for _, cost := range costs {
		requireCost(cost)
	}
	costs = maps.Clone(costs)
	return func(r *http.Request) int64 {
		if cost, ok := costs[cmp.Or(r.Method, http.MethodGet)]; ok {
			return cost
		}
		return other
	}
}

func requireCost(cost int64) {
	if cost < 0 {
		panic(fmt.Sprintf("httplimit: a cost must not be negative, got %d", cost))
	}
}

// OptionalKey returns a key, such as an API key or a session. found is false if the request lacks it. Choose what happens to
// requests without the key:
//
//	OrIP     the rule limits them by the client's address; the usual choice
//	OrShare  they share one limit, so one client can use it up for all others
//	OrSkip   the rule does not apply to them, so another rule must limit them
//	OrDeny   the rule denies them
//	OrFail   the decision fails; the usual choice for keys that the program itself must set
//
// The last three return a changed rule. If the rule has no Key, its key is the optional key.
type OptionalKey func(*http.Request) (key string, found bool)

// KeyByHeader returns the OptionalKey that is the first value of a header field. An empty value counts as missing. A client
// that can choose the value gets a new limit with each new value. So use a field that your own proxy sets, or that is
// authenticated before the limiter runs. Stores keep the value as readable text. If it is a secret, such as an API key, write
// an OptionalKey that returns a hash of it.
//
// The key of Authorization and Proxy-Authorization has the scheme in lower case, and one space. If your server accepts other
// spellings of the same credentials, such as other unused bits in base64, limit by the user instead.
func KeyByHeader(name string) OptionalKey {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, bool) {
		value := textproto.TrimString(r.Header.Get(name)) // over HTTP/2 a client can add spaces, which net/http does not pass on
		switch name {
		case "Host":
			value = KeyByHost(&http.Request{Host: r.Host}) // net/http moves it there
		case "Authorization", "Proxy-Authorization":
			value = oneSpelling(value)
		}
		return value, value != ""
	}
}

// oneSpelling returns credentials with their scheme in lower case and one space after it. Otherwise a client could get a new limit
// by other letter case or more spaces, because servers accept these too (RFC 9110, 11.4). Without a scheme they stay as they are.
func oneSpelling(credentials string) string {
	if end := strings.IndexAny(credentials, " \t"); end >= 0 {
		return strings.ToLower(credentials[:end]) + " " + strings.TrimLeft(credentials[end:], " \t")
	}
	return credentials
}

// KeyByCookie returns the OptionalKey that is the value of the first cookie with this name, decoded as many servers do. If you
// pass the request on to another server, remove the other cookies with the name, because many servers read the last one. See
// KeyByHeader about values.
func KeyByCookie(name string) OptionalKey {
	return func(r *http.Request) (string, bool) {
		for pair := range strings.SplitSeq(strings.Join(r.Header["Cookie"], ";"), ";") {
			found, value, _ := strings.Cut(pair, "=")
			if strings.TrimSpace(found) != name {
				continue
			}
			value = textproto.TrimString(value)
			if end := strings.IndexAny(value, " \t,"); end >= 0 && value[0] != '"' {
				value = value[:end]
			}
			alone := http.Request{Header: http.Header{"Cookie": {name + "=" + value}}} // among more than 3000 cookies, net/http finds none
			if cookie, err := alone.Cookie(name); err == nil {
				value = cookie.Value
				if decoded, err := url.PathUnescape(value); err == nil {
					value = decoded
				}
				return value, value != ""
			}
		}
		return "", false
	}
}

// OrIP returns a rule's Key: the optional key, or "ip:" and the client's address if the request lacks the key. OrIP panics if
// ip, a function that [ClientIP].Key returned, is nil. A key that starts with "ip:" or a quotation mark is quoted, so that it
// never equals the key of an address.
func (k OptionalKey) OrIP(ip func(*http.Request) string) func(*http.Request) string {
	if ip == nil {
		panic("httplimit: OrIP needs a function that returns the address, such as that of ClientIP.Key, got nil")
	}
	const tag = "ip:"
	return func(r *http.Request) string {
		key, found := k(r)
		switch {
		case !found:
			return tag + ip(r)
		case strings.HasPrefix(key, tag) || strings.HasPrefix(key, `"`):
			return strconv.Quote(key)
		}
		return key
	}
}

// OrShare returns a rule's Key: the optional key, or the empty key if the request lacks it.
func (k OptionalKey) OrShare() func(*http.Request) string {
	return func(r *http.Request) string {
		if key, found := k(r); found {
			return key
		}
		return ""
	}
}

// OrSkip returns the rule, changed so that it does not apply to requests without the key.
func (k OptionalKey) OrSkip(rule sluice.Rule[*http.Request]) sluice.Rule[*http.Request] {
	return k.withPolicyIfMissing(rule, func(algo.Policy) (algo.Policy, error) { return nil, sluice.Skip })
}

// OrDeny returns the rule, changed so that it denies requests without the key, with 429 and no Retry-After. No rule of the
// limiter charges them.
func (k OptionalKey) OrDeny(rule sluice.Rule[*http.Request]) sluice.Rule[*http.Request] {
	if cost := rule.Cost; cost != nil {
		rule.Cost = func(r *http.Request) int64 {
			_, answered := ResponseTo(r) // it had the key then, but the handler may have removed it
			if _, found := k(r); !found && !answered {
				return 1 // a cost of 0, as of a request without content, would not be denied
			}
			return cost(r)
		}
	}
	return k.withPolicyIfMissing(rule, func(p algo.Policy) (algo.Policy, error) { return denyall.Policy{Policy: p}, nil })
}

// errMissingKey is the error of a rule that OrFail returned.
var errMissingKey = errors.New("httplimit: the request lacks the key of the rule; if the key is a pattern or a path value, " +
	"put the limiter behind the router, and use a router that sets them, or choose OrIP, OrShare, OrSkip or OrDeny instead of OrFail")

// OrFail returns the rule, changed so that the decision about a request without the key fails with a [sluice.RuleError], even
// if the rule is a Shadow. The Handler answers 500.
func (k OptionalKey) OrFail(rule sluice.Rule[*http.Request]) sluice.Rule[*http.Request] {
	return k.withPolicyIfMissing(rule, func(algo.Policy) (algo.Policy, error) { return nil, errMissingKey })
}

// withPolicyIfMissing returns the rule with missing's policy for requests without the key. sluice.New
// cannot check the policy in the returned rule, so each decision fails with its error instead.
func (k OptionalKey) withPolicyIfMissing(rule sluice.Rule[*http.Request], missing func(algo.Policy) (algo.Policy, error)) sluice.Rule[*http.Request] {
	named := rule
	named.Name = cmp.Or(rule.Name, "unnamed") // the name may be set later
	_, invalid := sluice.For(nil, named)
	policyFor, policy := rule.PolicyFor, rule.Policy
	if p, err := compose.ParsePolicy(rule.Spec); err == nil {
		policy, rule.Spec = p, "" // a faulty spec stays, so that sluice.New returns its error
	}
	rule.Policy, rule.PolicyFor = nil, func(r *http.Request) (algo.Policy, error) {
		p, err := policy, invalid
		if policyFor != nil && invalid == nil {
			p, err = policyFor(r)
		}
		if _, found := k(r); p == nil || err != nil || found {
			return p, err
		}
		return missing(p)
	}
	if rule.Key == nil {
		rule.Key = k.OrShare()
	}
	return rule
}
