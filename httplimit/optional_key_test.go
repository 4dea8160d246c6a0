// These tests promise what happens to requests without a key, and that no key
// equals the key of an address.
package httplimit_test

import (
	"errors"
	"fmt"
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

func TestOrIPLimitsRequestsWithoutAKeyByAddress(t *testing.T) {
	optional := httplimit.KeyByHeader("X-Api-Key")
	h := limitedBy(t, sluice.Rule[*http.Request]{Name: "key", Key: optional.OrIP(clientKey(t)), Spec: "fixedwindow 1/h"})
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "")).Code)
	require.Equal(t, 429, answerOf(h, withKey("192.0.2.1", "")).Code)
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.2", "")).Code, "another address has its own limit")
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "k1")).Code, "a key has its own limit")
	require.Equal(t, 429, answerOf(h, withKey("192.0.2.3", "k1")).Code)
	empty := withKey("192.0.2.1", "")
	empty.Header["X-Api-Key"] = []string{""}
	require.Equal(t, 429, answerOf(h, empty).Code, "an empty header is missing")
}

func TestNoNameEqualsAnAddressOrAnotherName(t *testing.T) {
	key := httplimit.KeyByHeader("X-Api-Key").OrIP(clientKey(t))
	names := []string{"192.0.2.1", "ip:192.0.2.1", `"ip:192.0.2.1"`, `"\"ip:192.0.2.1\""`, `ip:`, `"`, `""`, `\"`, "a", `"a"`, `"\x61"`, " ip:192.0.2.1", "IP:192.0.2.1", "\xff", "ip:\xff", "ip:\ufffd", `"\xff`}
	seen := map[string]string{key(withKey("192.0.2.1", "")): "the address"}
	for _, name := range names {
		k := key(withKey("192.0.2.1", name))
		require.NotContains(t, seen, k, "%q and %q", name, seen[k])
		seen[k] = name
	}
	require.Equal(t, "ip:192.0.2.1", key(withKey("192.0.2.1", "")))
	require.Equal(t, "a", key(withKey("192.0.2.1", "a")), "a plain name is its key")
}

func FuzzDifferentNamesHaveDifferentKeys(f *testing.F) {
	f.Add("ip:192.0.2.1", `"ip:192.0.2.1"`)
	f.Add(`"`, `"\""`)
	f.Fuzz(func(t *testing.T, a, b string) {
		key := httplimit.KeyByHeader("X-Api-Key").OrIP(clientKey(t))
		require.Equal(t, a == b, key(withKey("192.0.2.1", a)) == key(withKey("192.0.2.1", b)))
	})
}

func TestOrSkipDoesNotLimitRequestsWithoutAKey(t *testing.T) {
	rule := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h"}
	h := limitedBy(t, httplimit.KeyByHeader("X-Api-Key").OrSkip(rule))
	for range 3 {
		w := answerOf(h, withKey("192.0.2.1", ""))
		require.Equal(t, 200, w.Code)
		require.Empty(t, w.Header()["Ratelimit"])
	}
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "a")).Code)
	require.Equal(t, 429, answerOf(h, withKey("192.0.2.1", "a")).Code)
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "b")).Code)
}

func TestOrDenyDeniesRequestsWithoutAKey(t *testing.T) {
	plain := sluice.Rule[*http.Request]{Name: "all", Spec: "fixedwindow 2/h"}
	rule := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Cost: httplimit.CostByContentLength(9)}
	h := limitedBy(t, plain, httplimit.KeyByHeader("X-Api-Key").OrDeny(rule))
	for range 5 {
		w := answerOf(h, withKey("192.0.2.1", ""))
		require.Equal(t, 429, w.Code, "also without content, which costs nothing")
		require.Empty(t, w.Header()["Retry-After"])
		require.Equal(t, []string{`"all";r=2`}, w.Header()["Ratelimit"], "nothing is paid, and only the quota of the other rule is shown")
		require.JSONEq(t, `{"type":"about:blank","title":"Too Many Requests","status":429,"violated-policies":["key"],
			"detail":"the request lacks the header or cookie that names the caller"}`, w.Body.String())
	}
	upload := withKey("192.0.2.1", "a")
	upload.ContentLength = 1
	require.Equal(t, 200, answerOf(h, upload).Code)
	require.Equal(t, 429, answerOf(h, upload).Code)
}

// A router that sets no pattern and no path values, or a limiter in front of the router, must not make
// all routes share one limit.
func TestOrFailFailsTheDecisionWithoutAKey(t *testing.T) {
	for name, key := range map[string]httplimit.OptionalKey{
		"pattern":    httplimit.KeyByPattern(),
		"path value": httplimit.KeyByPathValue("id"),
		"header":     httplimit.KeyByHeader("X-Api-Key"),
		"cookie":     httplimit.KeyByCookie("session"),
	} {
		for _, shadow := range []bool{false, true} {
			h := limitedBy(t, key.OrFail(sluice.Rule[*http.Request]{Name: "route", Spec: "fixedwindow 1/h", Shadow: shadow}))
			require.Equal(t, 500, answerOf(h, withKey("192.0.2.1", "")).Code, name)

			limiter, err := sluice.For(nil, key.OrFail(sluice.Rule[*http.Request]{Name: "route", Spec: "fixedwindow 1/h", Shadow: shadow}))
			require.NoError(t, err)
			_, err = limiter.Allow(t.Context(), withKey("192.0.2.1", ""))
			require.ErrorContains(t, err, `rule "route": PolicyFor: httplimit: the request lacks the key of the rule; if`)
		}
	}
}

func TestEachRouteHasALimitBehindTheMux(t *testing.T) {
	limiter := newLimiter(t, limiterOptions{Clock: still}, nil,
		httplimit.KeyByPattern().OrFail(sluice.Rule[*http.Request]{Name: "route", Spec: "fixedwindow 1/h"}),
		httplimit.KeyByPathValue("id").OrFail(sluice.Rule[*http.Request]{Name: "id", Spec: "fixedwindow 2/h"}))
	limit := httplimit.Middleware(limiter, httplimit.Options{})
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", limit(hello))
	mux.Handle("GET /users/{id}", limit(hello))
	mux.Handle("GET /search", limit(hello))
	for _, test := range []struct {
		path string
		want int
	}{
		{"/orders/1", 200},
		{"/orders/2", 429}, // the same route
		{"/users/1", 200},
		{"/search", 500}, // no path value
	} {
		require.Equal(t, test.want, answerOf(mux, httptest.NewRequest("GET", test.path, nil)).Code, test.path)
	}
}

func TestShadowRuleDoesNotRequireAKey(t *testing.T) {
	rule := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/h", Shadow: true}
	h := limitedBy(t, httplimit.KeyByHeader("X-Api-Key").OrDeny(rule))
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "")).Code)
}

func TestSkippedRuleDoesNotRequireAKey(t *testing.T) {
	rule := sluice.Rule[*http.Request]{Name: "key", PolicyFor: func(*http.Request) (algo.Policy, error) { return nil, sluice.Skip }}
	h := limitedBy(t, httplimit.KeyByHeader("X-Api-Key").OrDeny(rule))
	require.Equal(t, 200, answerOf(h, withKey("192.0.2.1", "")).Code)
}

func TestFailingPolicyForFailsTheDecision(t *testing.T) {
	unknown := errors.New("unknown plan")
	for _, want := range []error{unknown, nil} { // nil is no policy and no error
		rule := sluice.Rule[*http.Request]{Name: "key", PolicyFor: func(*http.Request) (algo.Policy, error) { return nil, want }}
		optional := httplimit.KeyByHeader("X-Api-Key")
		for _, r := range []sluice.Rule[*http.Request]{optional.OrSkip(rule), optional.OrDeny(rule), optional.OrFail(rule)} {
			limiter, err := sluice.For(nil, r)
			require.NoError(t, err)
			for _, key := range []string{"", "a"} {
				_, err = limiter.Allow(t.Context(), withKey("192.0.2.1", key))
				require.Error(t, err)
			}
		}
	}
}

// A rule that is not valid fails each decision. It is an error to set Policy after OrSkip or
// OrDeny, because that would undo the choice.
func TestInvalidRuleFailsEachDecision(t *testing.T) {
	optional := httplimit.KeyByHeader("X-Api-Key")
	policy := sluice.MustPolicy("gcra 1/s")
	for _, rule := range []sluice.Rule[*http.Request]{
		{Name: "key"},
		{Name: "key", Policy: gcra.Policy{}},
		{Name: "key", Policy: policy, PolicyFor: func(*http.Request) (algo.Policy, error) { return policy, nil }},
		{Name: "key", Policy: policy, Spec: "gcra 1/s"},
	} {
		_, want := sluice.For(nil, rule)
		require.Error(t, want)
		for _, r := range []sluice.Rule[*http.Request]{optional.OrSkip(rule), optional.OrDeny(rule), optional.OrFail(rule)} {
			for _, name := range []string{"", "abc"} {
				request := httptest.NewRequest(http.MethodGet, "/", nil)
				request.Header.Set("X-Api-Key", name)
				l, err := sluice.For(nil, r)
				require.NoError(t, err)
				_, err = l.Allow(request.Context(), request)
				require.ErrorContains(t, err, want.Error())
			}
			r.Policy = policy
			_, err := sluice.For(nil, r)
			require.ErrorContains(t, err, "more than one of Spec, Policy and PolicyFor")
		}
	}
	require.Panics(t, func() { optional.OrIP(nil) })
}

func TestInvalidSpecIsAnErrorOfNew(t *testing.T) {
	optional := httplimit.KeyByHeader("X-Api-Key")
	rule := sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 1/x"}
	for _, r := range []sluice.Rule[*http.Request]{optional.OrSkip(rule), optional.OrDeny(rule), optional.OrFail(rule)} {
		_, err := sluice.For(nil, r)
		require.ErrorContains(t, err, `sluice: rule "key": policy "fixedwindow 1/x", column 13: `)
		r.Spec = "fixedwindow 1/h" // would replace the choice that OrSkip or OrDeny made
		_, err = sluice.For(nil, r)
		require.ErrorContains(t, err, "more than one of Spec, Policy and PolicyFor")
	}
}

func TestNameMayBeSetAfterOrDeny(t *testing.T) {
	optional := httplimit.KeyByHeader("X-Api-Key")
	rule := optional.OrDeny(sluice.Rule[*http.Request]{Spec: "gcra 1/s"})
	_, err := sluice.For(nil, rule)
	require.ErrorContains(t, err, "Name must not be empty")
	rule.Name = "key"
	require.Equal(t, http.StatusTooManyRequests, answerOf(limitedBy(t, rule), httptest.NewRequest(http.MethodGet, "/", nil)).Code)
}

func limitedBy(t *testing.T, rules ...sluice.Rule[*http.Request]) http.Handler {
	t.Helper()
	limiter := newLimiter(t, limiterOptions{Clock: still}, nil, rules...)
	return httplimit.Handler(limiter, hello, httplimit.Options{})
}

func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Requests with an API key are limited by it, and requests without one by the client's
// address.
func ExampleOptionalKey_OrIP() {
	client, err := httplimit.ClientIP{}.Key()
	if err != nil {
		fmt.Println(err)
		return
	}
	key := httplimit.KeyByHeader("X-Api-Key").OrIP(client)
	r := httptest.NewRequest("GET", "/", nil)
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "k1")
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "ip:192.0.2.1")
	fmt.Println(key(r))
	// Output:
	// ip:192.0.2.1
	// k1
	// "ip:192.0.2.1"
}

// The application answers requests without a session itself.
func ExampleOptionalKey_OrDeny() {
	limiter, err := sluice.Options[*http.Request]{Clock: still}.New(nil,
		httplimit.KeyByCookie("session").OrDeny(sluice.Rule[*http.Request]{Name: "session", Spec: "gcra 1/m"}))
	if err != nil {
		fmt.Println(err)
		return
	}
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
