// These tests promise that a client cannot forge its address, and that the other keys are what their
// comments say.
package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func prefixes(list ...string) (found []netip.Prefix) {
	for _, p := range list {
		found = append(found, netip.MustParsePrefix(p))
	}
	return found
}

func keyOf(t testing.TB, c httplimit.ClientIP) func(*http.Request) string {
	t.Helper()
	key, err := c.Key()
	require.NoError(t, err)
	return key
}

var ownProxies = prefixes("10.0.0.0/8", "fd00::/8")

// behind returns the key of a server behind its own proxies, also on a unix socket.
func behind(t *testing.T, c httplimit.ClientIP) func(*http.Request) string {
	t.Helper()
	c.Trusted, c.TrustUnix = ownProxies, true
	return keyOf(t, c)
}

// from is a request of a peer, with lines of a field.
func from(peer, field string, lines ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{}))
	r.RemoteAddr = peer
	if lines != nil {
		r.Header[field] = lines
	}
	return r
}

// onUnix returns the request as if it came over a unix socket.
func onUnix(r *http.Request) *http.Request {
	local := &net.UnixAddr{Name: "/run/server.sock", Net: "unix"}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

const xff = "X-Forwarded-For"

func TestWithoutProxiesThePeerIsTheClient(t *testing.T) {
	tracetest.Answers(t, "testdata/peers.txt", func(peer string) string {
		key := keyOf(t, httplimit.ClientIP{Trusted: prefixes("0.0.0.0/0")})(onUnix(from(peer, xff, "203.0.113.9")))
		require.Equal(t, "unix", key, "a client can bind its end to any name")
		return keyOf(t, httplimit.ClientIP{})(from(peer, xff, "203.0.113.9"))
	})
}

func TestOptionsOfClientIP(t *testing.T) {
	mapped := httplimit.ClientIP{Trusted: prefixes("::ffff:10.0.0.0/104", "198.51.100.0/24")}
	for _, test := range []struct {
		client     httplimit.ClientIP
		peer, want string
	}{
		{mapped, "10.1.2.3:80", "203.0.113.9"},
		{mapped, "11.0.0.1:80", "11.0.0.1"},
		{mapped, "[64:ff9b::198.51.100.7]:1", "198.51.100.7"}, // a translated address is not trusted as the IPv4 address in it
		{httplimit.ClientIP{TrustUnix: true}, "192.0.2.1:80", "192.0.2.1"},
		{httplimit.ClientIP{IPv6Bits: 32}, "[2001:db8:1:2:3:4:5:6]:1", "2001:db8::/32"},
		{httplimit.ClientIP{IPv6Bits: 56}, "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1::/56"},
		{httplimit.ClientIP{IPv6Bits: 128}, "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2:3:4:5:6/128"},
	} {
		require.Equal(t, test.want, keyOf(t, test.client)(from(test.peer, xff, "203.0.113.9")), "%+v", test)
	}
	require.Equal(t, "198.51.100.7", keyOf(t, mapped)(from("10.0.0.1:1", xff, "203.0.113.9, 64:ff9b::198.51.100.7")))
	for want, r := range map[string]*http.Request{ // without TrustUnix
		"unix": onUnix(from("@", xff)),
		"unix (httplimit: a peer that is not trusted sent X-Forwarded-For or Forwarded)": onUnix(from("@", xff, "203.0.113.7")),
	} {
		require.Equal(t, want, answerOf(t, mapped, r))
	}
	for _, bits := range []int{-1, 31, 129} {
		_, err := httplimit.ClientIP{IPv6Bits: bits}.Key()
		require.ErrorContains(t, err, "IPv6Bits must be from 32 to 128")
		_, err = httplimit.ClientIP{IPv6Bits: bits}.Check()
		require.ErrorContains(t, err, "IPv6Bits")
	}
	require.Equal(t, prefixes("::ffff:10.0.0.0/104", "198.51.100.0/24"), mapped.Trusted, "the list of the caller is unchanged")
	_, err := httplimit.ClientIP{Trusted: make([]netip.Prefix, 1)}.Key()
	require.ErrorContains(t, err, "invalid prefix")
}

func TestFieldsOfTrustedProxies(t *testing.T) {
	tracetest.Answers(t, "testdata/forwarded.txt", func(question string) string {
		lines := strings.Split(question, " | ")
		field := map[bool]string{true: "Forwarded", false: xff}[strings.Contains(question, "=")]
		r := from(lines[0], field, lines[1:]...)
		if lines[0] == "@" {
			r = onUnix(r)
		}
		return answerOf(t, httplimit.ClientIP{Trusted: ownProxies, TrustUnix: true, Forwarded: field != xff}, r)
	})
	for _, long := range []string{strings.Repeat("1", 100_000), "fe80::1%" + strings.Repeat("z", 100_000)} {
		require.Equal(t, "10.0.0.1", behind(t, httplimit.ClientIP{})(from("10.0.0.1:80", xff, long)))
		require.Equal(t, "10.0.0.1", behind(t, httplimit.ClientIP{Forwarded: true})(from("10.0.0.1:80", "Forwarded", "for="+long)))
	}
}

func TestKeysReadTheRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "http://example.com:8080/orders/7", nil)
	r.Header.Add("X-Api-Key", "k1")
	r.Header.Add("X-Api-Key", "k2")
	r.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
	var pattern, id, other string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(_ http.ResponseWriter, r *http.Request) {
		pattern, id = httplimit.KeyByPattern().OrShare()(r), httplimit.KeyByPathValue("id").OrShare()(r)
		other = httplimit.KeyByPathValue("other").OrShare()(r)
	})
	mux.ServeHTTP(httptest.NewRecorder(), r)

	require.Equal(t, "GET /orders/{id}", pattern)
	require.Equal(t, "7", id)
	require.Equal(t, "", other)
	require.Equal(t, "k1", httplimit.KeyByHeader("x-api-key").OrShare()(r))
	require.Equal(t, "", httplimit.KeyByHeader("X-Missing").OrShare()(r))
	require.Equal(t, "example.com:8080", httplimit.KeyByHeader("host").OrShare()(r))
	require.Equal(t, "example.com", httplimit.KeyByHeader("Host").OrShare()(&http.Request{Host: "Example.COM."}))
	for value, want := range map[string]string{ // spellings of the same credentials (RFC 9110, 11.4)
		"Bearer Ab": "bearer Ab", "bEARER  \t Ab": "bearer Ab", " Bearer Ab ": "bearer Ab", "Bearer ab": "bearer ab", "Ab": "Ab", "Digest a=b, C=d": "digest a=b, C=d",
	} {
		for _, name := range []string{"authorization", "proxy-authorization"} {
			r.Header.Set(name, value)
			require.Equal(t, want, httplimit.KeyByHeader(name).OrShare()(r), value)
		}
	}
	for value, want := range map[string]string{" \tk1\t ": "k1", " \t": ""} { // as net/http passes them on over HTTP/2
		r.Header.Set("X-Spaces", value)
		require.Equal(t, want, httplimit.KeyByHeader("X-Spaces").OrShare()(r))
	}
	require.Equal(t, "s1", httplimit.KeyByCookie("session").OrShare()(r))
	require.Equal(t, "", httplimit.KeyByCookie("missing").OrShare()(r))
	for cookies, want := range map[string]string{
		"session=s1,x=1": "s1", "session=s1 x": "s1", "session=s1\t": "s1", "session=,s1": "", `session="a b,c"`: "a b,c",
		`a=b;  session ="s 2" ; session=s3`:       "s 2",
		"session=\xff; mysession=s2; session=s=3": "s=3", // a Go server refuses the first too
		strings.Repeat("; ", 4000) + "session=s2": "s2",  // so that clients cannot hide a cookie
		"session=; session=s2":                    "",
		`session= "s%32"`:                         "s2", // as JavaScript, PHP and Ruby programs read it
		"session=%7A%; session=s2":                "%7A%",
		"session":                                 "",
	} {
		r.Header["Cookie"] = []string{cookies}
		key, found := httplimit.KeyByCookie("session")(r)
		require.Equal(t, want, key, "%.99s", cookies)
		require.Equal(t, want != "", found, "%.99s", cookies)
	}
	require.Equal(t, "example.com:8080", httplimit.KeyByHost(r))
}

func TestSpellingsOfAHostHaveOneKey(t *testing.T) {
	tracetest.Answers(t, "testdata/hosts.txt", func(host string) string {
		if !strings.Contains(host, "://") {
			return httplimit.KeyByHost(&http.Request{Host: host})
		}
		r, err := http.NewRequest("GET", host, nil)
		require.NoError(t, err)
		return httplimit.KeyByHost(r)
	})
}

func TestJoinedKeysAreDistinct(t *testing.T) {
	joined := httplimit.JoinKeys(httplimit.KeyByHeader("A").OrShare(), httplimit.KeyByHeader("B").OrShare())
	values := []string{"", ",", "\"", "\\", "\" \"", "\\\"", "a", "a b", "\xff", "\\xff", "\ufffd"}
	seen := make(map[string][2]string)
	for _, a := range values {
		for _, b := range values {
			key := joined(&http.Request{Header: http.Header{"A": {a}, "B": {b}}})
			require.NotContains(t, seen, key, "%q %q", a, b)
			seen[key] = [2]string{a, b}
		}
	}
	require.Equal(t, `"a" "a b"`, joined(&http.Request{Header: http.Header{"A": {"a"}, "B": {"a b"}}}))
}

// answerOf returns the key of a request, and what is doubtful about it.
func answerOf(t *testing.T, c httplimit.ClientIP, r *http.Request) string {
	t.Helper()
	check, err := c.Check()
	require.NoError(t, err)
	key := keyOf(t, c)(r)
	if problem := check(r); problem != nil {
		return fmt.Sprintf("%s (%v)", key, problem)
	}
	return key
}

// Whatever a client sends before the proxy adds its address, the key is the client's, and never that of
// the victim, 198.51.100.7.
func FuzzForgedFields(f *testing.F) {
	const victim = "198.51.100.7"
	for _, forgery := range []string{
		"", victim, victim + ":80", "10.0.0.9", "10.0.0.9, " + victim, victim + ", 10.0.0.9",
		"127.0.0.1", "::1", "[::1]:80", "::ffff:198.51.100.7", "[::ffff:198.51.100.7]:443", "fe80::1%eth0", "fd00::1%10.0.0.1",
		"unknown", "_hidden", "localhost", "192.0.2", "192.0.2.256", "0x7f000001", "010.0.0.1", "192.0.2.1/24",
		"\"", "\\", "\"unclosed", ",\",", `\\"`, ",,,,", " , ,", ";", "=", "\x00\xff", "for=" + victim, `";for=198.51.100.7`,
		"for=\"" + victim, `for="[::1]`, `for="x\`, "for=" + victim + ";", "for=" + victim + ", for=10.0.0.9", "For=\"unclosed, for=" + victim,
		strings.Repeat(victim+", ", 7000), strings.Repeat("x", 100_000), strings.Repeat(",", 100_000), strings.Repeat("\"", 100_000), strings.Repeat("[", 100_000),
		"[2001:db8:7::7]", "2001:db8:7::7%eth0", "[fd00::1%25eth0]:80", "::ffff:10.0.0.9", "64:ff9b::a00:9", "10.0.0.9:0", "10.0.0.9:99999", "[10.0.0.9]:80",
		`for="[fd00::9]"`, `for="[2001:db8:7::7%eth0]:80"`, `for="10.0.0.9:80"`, "for=::ffff:10.0.0.9", "for=unknown", "for=_gateway", "proto=https;by=10.0.0.9",
	} {
		f.Add(forgery, forgery)
	}
	f.Fuzz(func(t *testing.T, line, start string) {
		for _, attacker := range []struct{ plain, quoted, key string }{
			{"203.0.113.6", "203.0.113.6", "203.0.113.6"}, {"2001:db8:6::6", "[2001:db8:6::6]", "2001:db8:6::/64"},
		} {
			for field, appended := range map[string]string{
				xff: attacker.plain, "Forwarded": `for="` + attacker.quoted + `:4711";proto=https;host="a, for=198.51.100.7;b=\",\\"`,
			} {
				key := behind(t, httplimit.ClientIP{Forwarded: field == "Forwarded"})
				proxy := map[string]string{xff: "10.0.0.2", "Forwarded": `by=x;for=10.0.0.2`}[field]
				for i, r := range []*http.Request{
					from("10.0.0.1:80", field, line, start+","+appended),
					from("[fd00::1]:80", field, line, start, appended, proxy),
					from("10.0.0.1:80", field, line+", "+appended+",, ,"+proxy+",", ""),
					from(attacker.quoted+":5001", field, line, start),
					onUnix(from("@", field, line, appended)),
				} {
					for _, other := range []string{xff, "Forwarded", "X-Real-Ip", "True-Client-Ip"} {
						if other != field {
							r.Header[other] = []string{victim}
						}
					}
					require.Equal(t, attacker.key, key(r), "%s %d", field, i)
				}
			}
		}
	})
}

// These tests promise what happens to requests without a key, and that no key
// equals the key of an address.

// withKey is a request of a client. It has the header X-Api-Key unless key is empty.
func withKey(ip, key string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = ip + ":99"
	if key != "" {
		r.Header["X-Api-Key"] = []string{key}
	}
	return r
}

// No name has the key of an address or of another name. A plain name is its key.
func FuzzDifferentNamesHaveDifferentKeys(f *testing.F) {
	names := []string{
		"192.0.2.1", "ip:192.0.2.1", `"ip:192.0.2.1"`, `"\"ip:192.0.2.1\""`, `ip:`, `"`, `""`, `\"`, "a", `"a"`, `"\x61"`, " ip:192.0.2.1", "IP:192.0.2.1",
		"\xff", "ip:\xff", "ip:\ufffd", `"\xff`, "",
	}
	for _, a := range names {
		for _, b := range names {
			f.Add(a, b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = textproto.TrimString(a), textproto.TrimString(b)
		key := httplimit.KeyByHeader("X-Api-Key").OrIP(keyOf(t, httplimit.ClientIP{}))
		require.Equal(t, a == b, key(withKey("192.0.2.1", a)) == key(withKey("192.0.2.1", b)))
		require.Equal(t, a == "", key(withKey("192.0.2.1", a)) == "ip:192.0.2.1")
		require.Equal(t, "a", key(withKey("192.0.2.1", "a")))
	})
}

// What happens to requests without a key is what the rule says.
func TestRequestsWithoutAKey(t *testing.T) {
	optional := httplimit.KeyByHeader("X-Api-Key")
	skipped := func(*http.Request) (algo.Policy, error) { return nil, sluice.Skip }
	for name, test := range map[string]struct {
		rule             sluice.Rule[*http.Request]
		without, with    []int // the statuses of requests
		anotherOrAddress int
	}{
		"OrIP":                  {sluice.By("key", optional.OrIP(keyOf(t, httplimit.ClientIP{})), "fixedwindow 1/h"), []int{200, 429}, []int{200, 429}, 200},
		"OrShare":               {sluice.By("key", optional.OrShare(), "fixedwindow 1/h"), []int{200, 429}, []int{200, 429}, 429},
		"OrSkip":                {optional.OrSkip(rule("key", "fixedwindow 1/h")), []int{200, 200}, []int{200, 429}, 200},
		"OrDeny":                {optional.OrDeny(rule("key", "fixedwindow 1/h")), []int{429, 429}, []int{200, 429}, 429},
		"OrDeny, shadow":        {optional.OrDeny(sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Shadow: true}), []int{200, 200}, []int{200, 200}, 200},
		"OrDeny, skipped":       {optional.OrDeny(sluice.Rule[*http.Request]{Name: "key", PolicyFor: skipped}), []int{200, 200}, []int{200, 200}, 200},
		"OrFail":                {optional.OrFail(rule("key", "fixedwindow 1/h")), []int{500, 500}, []int{200, 429}, 500},
		"OrFail, shadow":        {optional.OrFail(sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Shadow: true}), []int{500, 500}, []int{200, 200}, 500},
		"OrFail by the pattern": {httplimit.KeyByPattern().OrFail(rule("key", "fixedwindow 1/h")), []int{500}, []int{500}, 500},
		"OrFail by the path":    {httplimit.KeyByPathValue("id").OrFail(rule("key", "fixedwindow 1/h")), []int{500}, []int{500}, 500},
		"OrFail by the cookie":  {httplimit.KeyByCookie("session").OrFail(rule("key", "fixedwindow 1/h")), []int{500}, []int{500}, 500},
	} {
		h := newServer(t, httplimit.Options{}, test.rule)
		for _, want := range test.without {
			require.Equal(t, want, respond(h, withKey("192.0.2.1", "")).StatusCode, name)
		}
		for _, want := range test.with {
			require.Equal(t, want, respond(h, withKey("192.0.2.1", "k1")).StatusCode, name)
		}
		require.Equal(t, test.with[0], respond(h, withKey("192.0.2.1", "k2")).StatusCode, name)
		empty := withKey("192.0.2.2", "")
		empty.Header["X-Api-Key"] = []string{""}
		require.Equal(t, test.anotherOrAddress, respond(h, empty).StatusCode, "%s: an empty header is missing", name)
	}
}

func TestDenialOfARequestWithoutAKey(t *testing.T) {
	all := sluice.Rule[*http.Request]{Name: "all", Spec: "fixedwindow 2/h"}
	bytes := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Cost: httplimit.CostByContentLength(9)}
	byKey := httplimit.KeyByHeader("X-Api-Key").OrDeny(bytes)
	require.Zero(t, byKey.Cost(withKey("192.0.2.1", "k1")))
	h := newServer(t, httplimit.Options{Legacy: true}, all, byKey)
	for range 3 {
		w := respond(h, withKey("192.0.2.1", ""))
		require.Equal(t, 429, w.StatusCode, "also without content, which costs nothing")
		require.Empty(t, w.Header["Retry-After"])
		require.Empty(t, w.Header["X-Ratelimit-Limit"])
		require.Equal(t, []string{`"all";r=2`}, w.Header["Ratelimit"], "nothing is paid, and only the quota of the other rule is shown")
		text, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"about:blank","title":"Too Many Requests","status":429,"violated-policies":["key"],
			"detail":"the request lacks the header or cookie that names the caller"}`, string(text))
	}
}

func TestErrorOfARequestWithoutAKey(t *testing.T) {
	limiter := sluice.MustFor(nil, httplimit.KeyByPattern().OrFail(rule("route", "fixedwindow 1/h")))
	_, err := limiter.Allow(t.Context(), withKey("192.0.2.1", ""))
	require.ErrorContains(t, err, `rule "route": PolicyFor: httplimit: the request lacks the key of the rule; if`)
}

func TestKeyOfARuleThatNeedsAKey(t *testing.T) {
	byKey, byHost := httplimit.KeyByHeader("X-Api-Key").OrSkip(rule("", "gcra 1/s")), rule("", "gcra 1/s")
	byHost.Key = httplimit.KeyByHost
	byHost = httplimit.KeyByHeader("X-Api-Key").OrSkip(byHost)
	byKey.Name, byHost.Name = "key", "host" // can be set later
	d, err := sluice.MustFor(nil, byKey, byHost).Allow(t.Context(), withKey("192.0.2.1", "k1"))
	require.NoError(t, err)
	require.Equal(t, []string{"k1", "example.com"}, []string{d.Results[0].Key, d.Results[1].Key})
	notFound := httplimit.OptionalKey(func(*http.Request) (string, bool) { return "ann", false })
	require.Empty(t, notFound.OrShare()(withKey("192.0.2.1", "")))
}

// A rule that is not valid fails each decision with the error that sluice.New has for the rule. It is an error
// to set a policy after OrSkip, OrDeny or OrFail, because that would undo the choice.
func TestInvalidRuleFailsEachDecision(t *testing.T) {
	optional, policy := httplimit.KeyByHeader("X-Api-Key"), sluice.MustPolicy("gcra 1/s")
	policyFor := func(p algo.Policy, err error) func(*http.Request) (algo.Policy, error) {
		return func(*http.Request) (algo.Policy, error) { return p, err }
	}
	for _, rule := range []sluice.Rule[*http.Request]{
		{Name: "key"},
		{Name: "key", Policy: gcra.Policy{}},
		{Name: "key", Policy: policy, PolicyFor: policyFor(policy, nil)},
		{Name: "key", Policy: policy, Spec: "gcra 1/s"},
		{Name: "key", PolicyFor: policyFor(nil, errors.New("unknown plan"))},
		{Name: "key", PolicyFor: policyFor(nil, nil)},
		{Name: "key", Spec: "fixedwindow 1/x"},
	} {
		for _, changed := range []sluice.Rule[*http.Request]{optional.OrSkip(rule), optional.OrDeny(rule), optional.OrFail(rule)} {
			_, want := sluice.For(nil, rule)
			limiter, err := sluice.For(nil, changed)
			if rule.Spec != "" && rule.Policy == nil {
				require.ErrorContains(t, err, want.Error(), "a faulty spec is an error of sluice.For")
				continue
			}
			require.NoError(t, err)
			for _, name := range []string{"", "abc"} {
				_, err = limiter.Allow(t.Context(), withKey("192.0.2.1", name))
				require.Error(t, err)
				if want != nil {
					require.ErrorContains(t, err, want.Error())
				}
			}
			changed.Policy = policy
			_, err = sluice.For(nil, changed)
			require.ErrorContains(t, err, "more than one of Spec, Policy and PolicyFor")
		}
	}
}

// The application answers requests without a session itself.
func ExampleOptionalKey_OrDeny() {
	limiter := sluice.MustFor(frozen(), httplimit.KeyByCookie("session").OrDeny(sluice.Rule[*http.Request]{Name: "session", Spec: "gcra 1/m"}))
	h := httplimit.Handler(limiter, hello, httplimit.Options{OnDenied: func(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
		if refusal.Missing {
			http.Error(w, "sign in first", http.StatusForbidden)
			return
		}
		httplimit.Problem(w, r, refusal)
	}})
	r := httptest.NewRequest("GET", "/", nil)
	show(h, r)
	r.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
	show(h, r)
	show(h, r)
	// Output:
	// 403 sign in first
	// 200 hello
	//   RateLimit-Policy: "session";q=1;w=60
	//   RateLimit: "session";r=0;t=60
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["session"]}
	//   RateLimit-Policy: "session";q=1;w=60
	//   RateLimit: "session";r=0;t=60
	//   Retry-After: 60
}
