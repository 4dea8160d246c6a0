// These tests promise what happens to requests without a key, and that no key
// equals the key of an address.
package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/httplimit"
)

func clientKey(t testing.TB) func(*http.Request) string {
	key, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	return key
}

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
		key := httplimit.KeyByHeader("X-Api-Key").OrIP(clientKey(t))
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
		"OrIP":                  {sluice.By("key", optional.OrIP(clientKey(t)), "fixedwindow 1/h"), []int{200, 429}, []int{200, 429}, 200},
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
		empty := withKey("192.0.2.2", "")
		empty.Header["X-Api-Key"] = []string{""}
		require.Equal(t, test.anotherOrAddress, respond(h, empty).StatusCode, "%s: an empty header is missing", name)
	}
}

func TestDenialOfARequestWithoutAKey(t *testing.T) {
	all := sluice.Rule[*http.Request]{Name: "all", Spec: "fixedwindow 2/h"}
	bytes := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Cost: httplimit.CostByContentLength(9)}
	h := newServer(t, httplimit.Options{}, all, httplimit.KeyByHeader("X-Api-Key").OrDeny(bytes))
	for range 3 {
		w := respond(h, withKey("192.0.2.1", ""))
		require.Equal(t, 429, w.StatusCode, "also without content, which costs nothing")
		require.Empty(t, w.Header["Retry-After"])
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

func TestNameMayBeSetAfterOrDeny(t *testing.T) {
	rule := httplimit.KeyByHeader("X-Api-Key").OrDeny(sluice.Rule[*http.Request]{Spec: "gcra 1/s"})
	_, err := sluice.For(nil, rule)
	require.ErrorContains(t, err, "Name must not be empty")
	rule.Name = "key"
	require.Equal(t, http.StatusTooManyRequests, respond(newServer(t, httplimit.Options{}, rule), httptest.NewRequest(http.MethodGet, "/", nil)).StatusCode)
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
