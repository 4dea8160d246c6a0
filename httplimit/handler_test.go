// These tests promise what Handler answers: statuses, Retry-After, problem documents, the
// fields of several limiters, and that it changes nothing else.
package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
)

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problemOf reads the problem document of a response.
func problemOf(t *testing.T, response *http.Response) (p struct {
	Type, Title string
	Status      int
	Violated    []string `json:"violated-policies"`
}) {
	t.Helper()
	require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&p))
	require.Equal(t, response.StatusCode, p.Status)
	require.NotEmpty(t, p.Title)
	return p
}

func rule(name, spec string) sluice.Rule[*http.Request] {
	return sluice.Rule[*http.Request]{Name: name, Spec: spec}
}

func TestMisusePanicsBeforeTheFirstRequest(t *testing.T) {
	limiter := limiterOf(t, nil, "gcra 1/s")
	for want, misuse := range map[string]func(){
		"the limiter must not be nil":                                     func() { httplimit.Handler(nil, hello, httplimit.Options{}) },
		"the handler must not be nil":                                     func() { httplimit.Handler(limiter, nil, httplimit.Options{}) },
		`Options.Bytes has "b", but the rules of the limiter are ["own"]`: func() { httplimit.Handler(limiter, hello, httplimit.Options{Bytes: []string{"own", "b"}}) },
		"Options.Settle and Options.SettleRules are both set; set one": func() {
			httplimit.Handler(limiter, hello, httplimit.Options{SettleRules: true, Settle: func(*http.Request, int, int64) int64 { return 1 }})
		},
		"a cost must not be negative, got -7":                                                   func() { httplimit.CostByContentLength(-7) },
		"a cost must not be negative, got -1":                                                   func() { httplimit.CostByMethod(nil, -1) },
		"a cost must not be negative, got -2":                                                   func() { httplimit.CostByMethod(map[string]int64{"GET": -2}, 1) },
		"JoinKeys needs at least one key":                                                       func() { httplimit.JoinKeys() },
		"key 1 of JoinKeys must not be nil":                                                     func() { httplimit.JoinKeys(httplimit.KeyByHost, nil) },
		"OrIP needs a function that returns the address, such as that of ClientIP.Key, got nil": func() { httplimit.KeyByCookie("session").OrIP(nil) },
	} {
		require.PanicsWithValue(t, "httplimit: "+want, misuse)
	}
}

func TestRefusals(t *testing.T) {
	shadow := rule("shadow", "gcra 1/h")
	shadow.Shadow = true
	count := byCost("count", "gcra 1000/s")
	for name, test := range map[string]struct {
		bytes      []string
		rules      []sluice.Rule[*http.Request]
		costs      []int64 // of the requests; only the last is refused
		status     int
		retryAfter string
		limits     string
		violated   []string
	}{
		"several rules":         {nil, rules(rule("minute", "gcra 1/m"), rule("day", "fixedwindow 1/d"), rule("second", "gcra 100/s")), []int64{1, 1}, 429, "86400", `"minute";r=0;t=60, "day";r=0;t=86400, "second";r=99;t=1`, []string{"minute", "day"}},
		"a part of a stack":     {nil, rules(rule("client", "all(gcra 100/s; gcra 1/m)")), []int64{1, 1}, 429, "60", `"client.2";r=0;t=60`, []string{"client.2"}},
		"a penalty of a stack":  {nil, rules(rule("client", "penalty(all(gcra 100/s; gcra 1/m); for=2m)")), []int64{1, 1}, 429, "120", `"client.2";r=0;t=120`, []string{"client.2"}},
		"free and shadow rules": {nil, rules(shadow, rule("client", "gcra 1/m"), byCost("size", "gcra 10/s")), []int64{0, 0}, 429, "60", `"client";r=0;t=60`, []string{"client"}},
		"above the capacity":    {nil, rules(byCost("size", "gcra 10/s"), count), []int64{11}, 422, "", `"size";r=10, "count";r=1000`, []string{"size"}},
		"more bytes than that":  {[]string{"size"}, rules(byCost("size", "gcra 10/s"), count), []int64{11}, 413, "", `"size";r=10, "count";r=1000`, []string{"size"}},
		"but bytes are less":    {[]string{"count"}, rules(byCost("size", "gcra 10/s"), count), []int64{11}, 422, "", `"size";r=10, "count";r=1000`, []string{"size"}},
		"in any order of rules": {[]string{"a"}, rules(byCost("b", "gcra 1/s"), byCost("a", "gcra 1/s"), byCost("c", "gcra 1/s")), []int64{2}, 413, "", `"b";r=1, "a";r=1, "c";r=1`, []string{"b", "a", "c"}},
	} {
		s := newServer(t, httplimit.Options{Bytes: test.bytes}, test.rules...)
		last := len(test.costs) - 1
		for _, cost := range test.costs[:last] {
			require.Equal(t, http.StatusOK, s.get(cost).StatusCode, name)
		}
		response := s.get(test.costs[last])
		require.Equal(t, test.status, response.StatusCode, name)
		require.Equal(t, test.retryAfter, response.Header.Get("Retry-After"), name)
		require.Equal(t, test.limits, response.Header.Get("RateLimit"), name)
		p := problemOf(t, response)
		require.Equal(t, map[bool]string{true: quotaExceeded, false: "about:blank"}[test.status == 429], p.Type, name)
		require.Equal(t, test.violated, p.Violated, name)
	}
}

func rules(list ...sluice.Rule[*http.Request]) []sluice.Rule[*http.Request] { return list }

// A handler may have set fields for its own content before. They would be wrong for a
// denial, and a cache must not keep a denial.
func TestDenialDropsFieldsOfOtherContent(t *testing.T) {
	s := newServer(t, httplimit.Options{}, rule("client", "gcra 1/m"))
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control": "public, max-age=3600", "Content-Length": "7", "ETag": `"x"`, "Expires": "Thu, 01 Jan 2026 12:00:05 GMT",
			"Last-Modified": "Thu, 01 Jan 2026 12:00:00 GMT", "Content-Encoding": "gzip", "Vary": "Accept-Encoding",
		} {
			w.Header().Set(name, value)
		}
		s.ServeHTTP(w, r)
	})
	require.Equal(t, "7", respond(outer, costing(1)).Header.Get("Content-Length"), "an allowed response keeps them")
	require.Equal(t, http.Header{
		"Content-Type": {"application/problem+json"}, "Content-Encoding": {"gzip"}, "Vary": {"Accept-Encoding"},
		"Ratelimit": {`"client";r=0;t=60`}, "Ratelimit-Policy": {`"client";q=1;w=60`}, "Retry-After": {"60"},
	}, respond(outer, costing(1)).Header)
}

func TestSkippedRequestsAndShadowsAreNotShown(t *testing.T) {
	isHealthCheck := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	shadow := rule("shadow", "gcra 1/h")
	shadow.Shadow = true
	s := newServer(t, httplimit.Options{Legacy: true}, shadow)
	for range 3 {
		response := s.get(1)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, response.Header)
	}
	s = newServer(t, httplimit.Options{Skip: isHealthCheck, Legacy: true}, rule("client", "gcra 1/h"))
	for range 3 {
		response := respond(s, httptest.NewRequest("GET", "/healthz", nil))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, response.Header)
	}
	require.Equal(t, http.StatusOK, s.get(1).StatusCode, "skipped requests paid nothing")
	require.Equal(t, http.StatusTooManyRequests, s.get(1).StatusCode)
}

func TestLimitersOfARouteAppendTheirFields(t *testing.T) {
	inner := newServer(t, httplimit.Options{Legacy: true}, rule("inner", "gcra 2/m"))
	limiter := newLimiter(t, limiterOptions{Clock: inner.Now}, nil, rule("outer", "gcra 10/m"))
	proxy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("RateLimit", `"upstream";r=1`) // as a reverse proxy does
		w.Header().Add("RateLimit-Policy", `"upstream";q=1`)
		inner.ServeHTTP(w, r)
	})
	outer := httplimit.Handler(limiter, proxy, httplimit.Options{Legacy: true})
	for i, want := range []string{`"outer";r=9;t=6, "upstream";r=1, "inner";r=1;t=30`, `"outer";r=8;t=6, "upstream";r=1, "inner";r=0;t=30`, `"outer";r=7;t=6, "upstream";r=1, "inner";r=0;t=30`} {
		response := respond(outer, httptest.NewRequest("GET", "/", nil))
		require.Equal(t, []int{200, 200, 429}[i], response.StatusCode)
		require.Equal(t, []string{want}, response.Header.Values("RateLimit"), "on one line, because some clients read only the first")
		require.Equal(t, []string{`"outer";q=10;w=60, "upstream";q=1, "inner";q=2;w=60`}, response.Header.Values("RateLimit-Policy"))
		require.Equal(t, []string{"2"}, response.Header.Values("X-RateLimit-Limit"), "of the limiter with the least remaining")
	}
}

// The package comment documents this.
func TestTimeoutHandlerReplacesTheOuterFields(t *testing.T) {
	inner := newServer(t, httplimit.Options{}, rule("inner", "gcra 2/m"))
	limiter := newLimiter(t, limiterOptions{Clock: inner.Now}, nil, rule("outer", "gcra 10/m"))
	outer := httplimit.Handler(limiter, http.TimeoutHandler(inner, time.Hour, ""), httplimit.Options{})
	response := respond(outer, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, []string{`"inner";r=1;t=30`}, response.Header.Values("RateLimit"))
}

func TestLegacyFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limiterOptions{Clock: time.Now}, nil, rule("day", "fixedwindow 3/d"), rule("second", "gcra 100/s"))
		h := httplimit.Handler(limiter, hello, httplimit.Options{Legacy: true})
		reset := strconv.FormatInt(time.Now().Add(24*time.Hour).Unix(), 10)
		for _, remaining := range []string{"2", "1", "0", "0"} {
			response := respond(h, httptest.NewRequest("GET", "/", nil))
			require.Equal(t, "3", response.Header.Get("X-RateLimit-Limit"))
			require.Equal(t, remaining, response.Header.Get("X-RateLimit-Remaining"))
			require.Equal(t, reset, response.Header.Get("X-RateLimit-Reset"))
		}
		time.Sleep(24*time.Hour + time.Nanosecond)
		reset = strconv.FormatInt(time.Now().Add(24*time.Hour+time.Second).Unix(), 10)
		require.Equal(t, reset, respond(h, httptest.NewRequest("GET", "/", nil)).Header.Get("X-RateLimit-Reset"), "rounded up")

		plain := respond(httplimit.Handler(limiter, hello, httplimit.Options{}), httptest.NewRequest("GET", "/", nil))
		require.Empty(t, plain.Header.Get("X-RateLimit-Limit"), "off by default")
	})
}

// outage returns a handler whose store is down.
func outage(t *testing.T, policy sluice.FailurePolicy, rules ...sluice.Rule[*http.Request]) http.Handler {
	limiter := newLimiter(t, limiterOptions{Clock: still, Timeout: 5 * time.Millisecond, OnFailure: policy}, failing(storage.NotApplied(storage.ErrUnavailable)), rules...)
	return httplimit.Handler(limiter, hello, httplimit.Options{Legacy: true})
}

func TestFailurePolicyDecidesWhileTheStoreIsDown(t *testing.T) {
	response := respond(outage(t, sluice.FailClosed, rule("client", "gcra 1/m")), costing(1))
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"5"}}, response.Header, "no RateLimit fields")
	p := problemOf(t, response)
	require.Equal(t, reducedCapacity, p.Type)
	require.Empty(t, p.Violated)

	response = respond(outage(t, sluice.FailOpen, rule("client", "gcra 1/m")), costing(1))
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Empty(t, response.Header.Values("RateLimit"))

	h := outage(t, sluice.FailLocal, rule("client", "gcra 1/m"))
	require.Equal(t, http.StatusOK, respond(h, costing(1)).StatusCode)
	response = respond(h, costing(1))
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.Equal(t, "60", response.Header.Get("Retry-After"))
}

// A fault of a rule is answered with 500 whatever it is and whatever OnFailure says, and not as an outage of
// the store.
func TestFaultOfARuleIsAnswered500(t *testing.T) {
	rules := []sluice.Rule[*http.Request]{byCost("client", "gcra 1/m")} // the cost is -1
	for _, failed := range []error{nil, errors.New("no such plan"), storage.ErrUnavailable, context.Canceled} {
		rules = append(rules, sluice.Rule[*http.Request]{Name: "plan", PolicyFor: func(*http.Request) (algo.Policy, error) { return nil, failed }})
	}
	for _, faulty := range rules {
		for _, policy := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
			response := respond(outage(t, policy, rule("other", "gcra 100/m"), faulty), costing(-1))
			require.Equal(t, http.StatusInternalServerError, response.StatusCode)
			require.Equal(t, "Internal Server Error", problemOf(t, response).Title)
		}
	}
}

func TestOnDeniedGetsTheReason(t *testing.T) {
	var got httplimit.Refusal
	o := httplimit.Options{OnDenied: func(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
		got = refusal
		w.WriteHeader(http.StatusTeapot)
	}}
	s := newServer(t, o, rule("second", "gcra 100/s"), rule("client", "gcra 1/1500ms"))
	s.get(1)
	response := s.get(1)
	require.Equal(t, http.StatusTeapot, response.StatusCode)
	require.Equal(t, "2", response.Header.Get("Retry-After"))
	require.Equal(t, http.StatusTooManyRequests, got.Status)
	require.Equal(t, 1500*time.Millisecond, got.RetryAfter)
	require.Equal(t, []string{"client"}, got.Violated)
	require.NoError(t, got.Err)
	require.Equal(t, "client", got.Decision.Rule)
	require.False(t, got.Decision.Allowed)
	require.Equal(t, got.RetryAfter, got.Decision.RetryAfter)
	require.Len(t, got.Decision.Results, 2)
	require.EqualValues(t, 99, got.Decision.Results[0].Remaining)

	limiter, err := sluice.For(failing(errors.New("disk on fire")), rule("client", "gcra 1/s"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	respond(httplimit.Handler(limiter, hello, o), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	require.ErrorIs(t, got.Err, context.Canceled)
	require.Equal(t, http.StatusServiceUnavailable, got.Status)
}

// unread is a body that fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }
func (u unread) Close() error             { return nil }

func TestNextGetsTheOriginalWriterAndRequest(t *testing.T) {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest("PUT", "/", unread{t})
	limiter := newLimiter(t, limiterOptions{Clock: still}, nil, rule("client", "gcra 1/s"))
	served := 0
	h := httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, recorder, w)
		require.Same(t, request, r)
		served++
	}), httplimit.Options{})
	h.ServeHTTP(recorder, request)
	h.ServeHTTP(recorder, request)
	require.Equal(t, 1, served)
}
