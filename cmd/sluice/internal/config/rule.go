package config

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/fieldlist"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

const (
	fieldWords = "ip, user, method, path, host, header:NAME or cookie:NAME"

	wantRules    = "a list of rules, each with a name and a policy, such as [{name: client, policy: gcra 100/m, by: ip}]"
	wantName     = "1 to 64 letters, digits, - and _, such as per-client"
	wantPolicy   = "a policy, such as gcra 100/m burst=20"
	wantPrefixes = "addresses or prefixes, such as [10.0.0.0/24, 192.0.2.1]"
	wantBy       = "one or more of " + fieldWords
	wantMethods  = "methods, such as [GET, POST]"
	wantPaths    = "paths, such as [/login, /api/*]"
	wantCount    = "statuses from 100 to 599, or 1xx to 5xx, such as [401, 403, 5xx]"
	wantEstimate = "the units that are charged before the response, such as 500"
	wantActual   = "header:NAME, the header of the response that has the actual cost, such as header:X-Tokens-Used"
)

func (r *reader) file(root *yaml.Node) *File {
	f := new(File)
	var except Except
	given := r.members(root, "",
		list(r, "trusted", &f.Trusted, "", trusted),
		value(r, "forwarded", &f.Forwarded, boolean),
		value(r, "ipv6_bits", &f.IPv6Bits, ipv6Bits),
		r.except(&except),
		member{"rules", func(n *yaml.Node, at string) { f.Rules = r.rules(n, at) }, wantRules},
	)
	if n := given["forwarded"]; n != nil && f.Forwarded && (given["trusted"] == nil || f.Trusted != nil && len(f.Trusted) == 0) {
		r.faultf(n, "forwarded", "has no effect without trusted; write the addresses of your proxies into trusted")
	}
	if given["trusted"] == nil {
		for _, fault := range r.needTrusted {
			fault()
		}
	}
	for i := range f.Rules {
		e := &f.Rules[i].Except
		e.Addresses, e.Methods, e.Paths = slices.Concat(except.Addresses, e.Addresses), slices.Concat(except.Methods, e.Methods), slices.Concat(except.Paths, e.Paths)
	}
	return f
}

// except is the member with the requests that rules do not apply to.
func (r *reader) except(e *Except) member {
	return member{name: "except", read: func(n *yaml.Node, at string) {
		given := r.members(n, at,
			list(r, "addresses", &e.Addresses, wantPrefixes, exempt),
			list(r, "methods", &e.Methods, wantMethods, parsed(wantMethods, parseMethod)),
			list(r, "paths", &e.Paths, wantPaths, parsed(wantPaths, parsePath)),
		)
		if n := given["addresses"]; n != nil {
			r.needTrusted = append(r.needTrusted, func() {
				r.faultf(n, at+".addresses", "needs trusted, because behind a proxy all requests would have the address of the proxy; write the addresses of your proxies into trusted, or trusted: [] if clients connect directly")
			})
		}
		if given != nil && len(given) == 0 {
			r.faultf(n, at, "is empty; leave it out, or write requests that are not limited, such as {paths: [/health]}")
		}
	}}
}

// trusted reads an address or prefix. In a list within brackets the library reads 2001:db8::, which is
// text in YAML, as a mapping.
func trusted(n *yaml.Node) (netip.Prefix, error) {
	return prefix(n, ParseTrusted)
}

// exempt reads an address or prefix of clients.
func exempt(n *yaml.Node) (netip.Prefix, error) {
	return prefix(n, func(s string) (netip.Prefix, error) {
		p, err := parsePrefix(s)
		if err == nil && p.Bits() == 0 {
			err = fmt.Errorf("%s covers all addresses, so no client would be limited; want the addresses of some clients", errtext.Quote(s))
		}
		return p, err
	})
}

func prefix(n *yaml.Node, parse func(string) (netip.Prefix, error)) (netip.Prefix, error) {
	s, _ := fieldText(n)
	if strings.TrimSpace(s) == "" {
		return netip.Prefix{}, fmt.Errorf("%s; want %s", describe(n), wantPrefixes)
	}
	return parse(s)
}

func ipv6Bits(n *yaml.Node) (int, error) {
	bits, ok := integer(n)
	if !ok || bits < 32 || bits > 128 {
		return 0, fmt.Errorf("%s; want a whole number from 32 to 128 in decimal digits, such as 64", describe(n))
	}
	return int(bits), nil
}

func (r *reader) rules(n *yaml.Node, at string) (rules []Rule) {
	if !is(n, "!!seq") || len(n.Content) == 0 {
		r.faultf(n, at, "%s; want %s", describe(n), wantRules)
		return nil
	}
	for i, n := range n.Content {
		rules = append(rules, r.rule(n, fmt.Sprintf("%s[%d]", at, i)))
	}
	return rules
}

func (r *reader) rule(n *yaml.Node, at string) Rule {
	rule := Rule{Cost: Cost{Units: 1}}
	given := r.members(n, at,
		value(r, "name", &rule.Name, r.name).required(wantName),
		value(r, "policy", &rule.Policy, parsed(wantPolicy, compose.ParsePolicy)).required(wantPolicy),
		r.by(&rule),
		value(r, "missing", &rule.Missing, missing),
		r.cost(&rule),
		list(r, "count", &rule.Count, wantCount, statuses),
		list(r, "methods", &rule.Methods, wantMethods, parsed(wantMethods, parseMethod)),
		list(r, "paths", &rule.Paths, wantPaths, parsed(wantPaths, parsePath)),
		r.except(&rule.Except),
		value(r, "shadow", &rule.Shadow, boolean),
	)
	byIsValid := rule.By != nil || given["by"] == nil
	if n := given["missing"]; n != nil && byIsValid && len(rule.MayLack()) == 0 {
		r.faultf(n, at+".missing", "has no effect in a rule by %s; write it only in rules by user, header:NAME or cookie:NAME", rule.ByString())
	}
	if n := given["cost"]; n != nil && rule.Policy != nil && rule.Cost.Units > Capacity(rule.Policy) {
		r.faultf(n, at+".cost", "is %d, and the policy %v never allows more than %d at once, so all requests would be denied; want at most %[3]d, or a larger policy",
			rule.Cost.Units, rule.Policy, Capacity(rule.Policy))
	}
	if rule.Policy != nil && rule.HoldsUnits() {
		const released = "has no effect under %v, because all its units are released after the response; %s"
		if n := given["count"]; n != nil {
			r.faultf(n, at+".count", released, rule.Policy, "leave it out")
		}
		if rule.Cost.Actual != "" {
			r.faultf(given["cost"], at+".cost.actual", released, rule.Policy, "want a number as the cost")
		}
	}
	return rule
}

func (r *reader) name(n *yaml.Node) (string, error) {
	kind := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "a boolean", "!!timestamp": "a date"}[n.Tag]
	if kind != "" && is(n, n.Tag) && isName(n.Value) {
		return "", fmt.Errorf("is %s, which is %s without quotes; want text in quotes: \"%[1]s\"", n.Value, kind)
	}
	name, err := word(n, wantName)
	switch {
	case err != nil:
		return "", err
	case !isName(name):
		return "", fmt.Errorf("is %s; want %s", errtext.Quote(name), wantName)
	case r.names[name] > 0:
		return "", fmt.Errorf("%s is also the name of the rule in line %d; want another name", errtext.Quote(name), r.names[name])
	}
	r.names[name] = n.Line
	return name, nil
}

// isName allows few characters, because names become part of stored keys, headers and
// metrics. A dot would look like a part of a stacked policy there.
func isName(s string) bool { return len(s) <= 64 && HasOnly(s, "-_") }

// HasOnly reports whether s has only ASCII letters, digits and the marks.
func HasOnly(s, marks string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r))
	})
}

// Capacity returns the largest cost that a policy can ever allow.
func Capacity(p algo.Policy) int64 {
	fresh, _ := p.Peek(nil, time.Unix(0, 0), 1) // only a state can cause an error
	return fresh.Limit
}

// by is the member with one field, several fields joined by +, or a list of fields.
func (r *reader) by(rule *Rule) member {
	joined := value(r, "by", &rule.By, parsed(wantBy, ParseFields))
	listed := list(r, "by", &rule.By, wantBy, func(n *yaml.Node) (Field, error) {
		s, ok := fieldText(n)
		if !ok {
			return Field{}, fmt.Errorf("%s; want %s", describe(n), wantBy)
		}
		return parseField(s, fieldWords, rule.By)
	})
	return member{name: "by", read: func(n *yaml.Node, at string) {
		if is(n, "!!str") {
			joined.read(n, at)
		} else {
			listed.read(n, at)
		}
	}}
}

// fieldText returns the text of a field. In a list within braces the library reads
// header:X-Team, which is text in YAML, as a mapping of header to X-Team.
func fieldText(n *yaml.Node) (string, bool) {
	if !is(n, "!!map") || len(n.Content) != 2 {
		return text(n)
	}
	kind, ok := text(n.Content[0])
	name, named := text(n.Content[1])
	if !ok || !named && !isNothing(n.Content[1]) {
		return "", false
	}
	return kind + ":" + name, true
}

func missing(n *yaml.Node) (Missing, error) {
	known := []string{string(MissingIP), string(MissingShare), string(MissingSkip), string(MissingDeny)}
	word, _ := text(n)
	if slices.Contains(known, word) {
		return Missing(word), nil
	}
	return "", fmt.Errorf("%s%s; want ip, share, skip or deny", describe(n), fieldlist.DidYouMean(word, known))
}

// cost is the member with a number, bytes, or a mapping of an estimate and the header with the actual cost.
func (r *reader) cost(rule *Rule) member {
	known := value(r, "cost", &rule.Cost, cost)
	return member{name: "cost", read: func(n *yaml.Node, at string) {
		if !is(n, "!!map") {
			known.read(n, at)
			return
		}
		var c Cost
		r.members(n, at,
			value(r, "estimate", &c.Units, estimate).required(wantEstimate),
			value(r, "actual", &c.Actual, actual).required(wantActual),
		)
		if c.Units > 0 && c.Actual != "" {
			rule.Cost = c
		}
	}}
}

func cost(n *yaml.Node) (Cost, error) {
	if s, _ := text(n); s == "bytes" {
		return Cost{Bytes: true}, nil
	}
	units, err := estimate(n)
	if err != nil {
		return Cost{}, fmt.Errorf("%w, or bytes", err)
	}
	return Cost{Units: units}, nil
}

func estimate(n *yaml.Node) (int64, error) {
	units, ok := integer(n)
	if !ok || units < 1 {
		return 0, fmt.Errorf("%s; want a whole number from 1 to %d in decimal digits, such as 10", describe(n), int64(math.MaxInt64))
	}
	return units, nil
}

func actual(n *yaml.Node) (string, error) {
	s, _ := fieldText(n)
	kind, name, _ := strings.Cut(s, ":")
	if kind != string(Header) || !IsToken(name) {
		return "", fmt.Errorf("%s; want %s", describe(n), wantActual)
	}
	return http.CanonicalHeaderKey(name), nil
}

// statuses reads a status such as 401, or a class such as 5xx.
func statuses(n *yaml.Node) (Statuses, error) {
	word, ok := text(n)
	if class, isClass := strings.CutSuffix(word, "xx"); ok && isClass && len(class) == 1 && "1" <= class && class <= "5" {
		first := 100 * int(class[0]-'0')
		return Statuses{first, first + 99}, nil
	}
	status, ok := integer(n)
	if !ok || status < 100 || status > 599 {
		return Statuses{}, fmt.Errorf("%s; want %s", describe(n), wantCount)
	}
	return Statuses{int(status), int(status)}, nil
}

func parseMethod(m string) (string, error) {
	if !IsToken(m) || m == "*" { // no request has the method *, so such a rule would limit nothing
		return "", fmt.Errorf("is %s; want a method, such as GET", errtext.Quote(m))
	}
	return strings.ToUpper(m), nil
}

// parsePath returns the pattern of a path if it is valid.
func parsePath(p string) (string, error) {
	tree, _ := strings.CutSuffix(p, "/*")
	var problem string
	switch {
	case !IsPrintable(p):
		problem = "want printable characters, such as /login"
	case !strings.HasPrefix(p, "/"):
		problem = "want a path that begins with /, such as /login or /api/*"
	case strings.Contains(tree, "*"):
		problem = "want * only at the end, after a /, such as /api/*"
	case strings.ContainsAny(p, "?#%"):
		problem = "want a decoded path without a query, such as /login"
	case tree != "" && cleanPath(tree) != tree:
		problem = "want the cleaned path " + cleanPath(tree)
	default:
		return p, nil
	}
	return "", fmt.Errorf("is %s; %s", errtext.Quote(p), problem)
}

// ParseTrusted parses the address or prefix of trusted proxies. It refuses a prefix that
// covers all addresses.
func ParseTrusted(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err == nil && p.Bits() == 0 {
		err = fmt.Errorf("%s covers all addresses, so any client could forge its address; want the addresses of your proxies", errtext.Quote(s))
	}
	return p, err
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if addr, notAddr := netip.ParseAddr(s); notAddr == nil {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p = trustedproxy.Unmap(p) // an IPv4-mapped prefix of 96 bits covers all addresses too
	switch {
	case err != nil:
		return p, fmt.Errorf("%s is not an address or prefix; want one such as 10.0.0.0/24 or 192.0.2.1", errtext.Quote(s))
	case p != p.Masked():
		return p, fmt.Errorf("%s has bits after the prefix; want %v, or %v for one machine", errtext.Quote(s), p.Masked(), p.Addr())
	}
	return p, nil
}

// ParseFields reads the names of fields joined by +, such as ip or user+header:X-Team. For
// "everything" it returns an empty list, not nil.
func ParseFields(by string) ([]Field, error) {
	return fieldlist.Parse(by, func(word string, before []Field) (Field, error) {
		return parseField(word, fieldWords+fieldlist.Several, before)
	})
}

// parseField reads the name of a field that is not among the others.
func parseField(word, want string, others []Field) (Field, error) {
	known := []string{string(IP), string(User), string(Method), string(Path), string(Host)}
	examples := map[string]string{string(Header): "X-Api-Key", string(Cookie): "session"}
	kind, name, named := strings.Cut(word, ":")
	if kind == string(Header) {
		name = http.CanonicalHeaderKey(name)
	}
	f, example := Field{Kind(kind), name}, examples[kind]
	switch {
	case example == "" && !slices.Contains(known, kind):
		return f, fieldlist.Unknown(word, known, want)
	case example == "" && named:
		return f, fmt.Errorf("%s takes no name, got %q; want %[1]s", kind, word)
	case example != "" && !IsToken(name):
		return f, fmt.Errorf("%s is not a valid %s name; want %[2]s:NAME, such as %[2]s:%s", errtext.Quote(name), kind, example)
	case f == Field{Header, "X-Forwarded-For"}, f == Field{Header, "Forwarded"}:
		return f, fmt.Errorf("any client can forge the header %s; want ip, with the addresses of your proxies in trusted", name)
	case f == Field{Header, "Host"}:
		return f, fmt.Errorf("the header Host has its own field; want host")
	case slices.Contains(others, f):
		return f, fmt.Errorf("%v is there twice; write it once", f)
	}
	return f, nil
}

// IsToken reports whether s can be the name of a header, a cookie or a method (RFC 9110,
// section 5.6.2).
func IsToken(s string) bool { return s != "" && HasOnly(s, "!#$%&'*+-.^_`|~") }
