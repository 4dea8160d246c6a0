// These tests promise what Handler answers: statuses, Retry-After, problem documents, the
// fields of several limiters, and that it changes nothing else.
package httplimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
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

func TestResponses(t *testing.T) {
	tracetest.Answers(t, "testdata/responses.txt", func(question string) (text string) {
		synctest.Test(t, func(t *testing.T) { text = responseTo(t, question) })
		return text
	})
}

func responseTo(t *testing.T, question string) (text string) {
	o, words := httplimit.Options{Legacy: true}, strings.Split(question, " | ")
	var list []sluice.Rule[*http.Request]
	for _, word := range words[:len(words)-1] {
		name, spec, _ := strings.Cut(word, ": ")
		spec, special, _ := strings.Cut(spec, " (")
		r := rule(name, spec)
		if strings.Contains(special, "cost") {
			r = byCost(name, spec)
		}
		if strings.Contains(special, "bytes") {
			o.Bytes = append(o.Bytes, name)
		}
		r.Shadow = strings.Contains(special, "shadow")
		list = append(list, r)
	}
	s := newServer(t, o, list...)
	var statuses []string
	var response *http.Response
	for _, request := range strings.Fields(words[len(words)-1]) {
		switch request {
		case "busy":
			_, _, release, err := s.limiter.Hold(t.Context(), costing(1))
			require.NoError(t, err)
			defer release()
			continue
		case "charge25":
			_, err := s.limiter.Charge(t.Context(), costing(1), 25)
			require.NoError(t, err)
			continue
		}
		cost, err := strconv.ParseInt(request, 10, 64)
		require.NoError(t, err)
		response = s.get(cost)
		statuses = append(statuses, strconv.Itoa(response.StatusCode))
	}
	text = strings.Join(statuses, " ")
	readFields(t, response.Header)
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		text += fmt.Sprintf("\n%s: %s", name, strings.Join(response.Header[name], " | "))
	}
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strings.TrimRight(text+"\n"+string(content), "\n")
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

func TestSkippedRequestsAreNotLimited(t *testing.T) {
	isHealthCheck := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	s := newServer(t, httplimit.Options{Skip: isHealthCheck, Legacy: true}, rule("client", "gcra 1/h"))
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
	lower := newLimiter(t, limiterOptions{Clock: inner.Now}, nil, rule("outer", "gcra 1/m"))
	outer = httplimit.Handler(lower, newServer(t, httplimit.Options{Legacy: true}, rule("inner", "gcra 2/m")), httplimit.Options{Legacy: true})
	require.Equal(t, "1", respond(outer, costing(1)).Header.Get("X-RateLimit-Limit"))
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
	for _, fault := range []error{storage.ErrKey, storage.ErrDuplicateKey} {
		require.Equal(t, http.StatusInternalServerError, respond(httplimit.Handler(limiterOf(t, failing(fault), "gcra 1/s"), hello, httplimit.Options{}), costing(1)).StatusCode)
	}
}

func TestOnDeniedGetsTheReason(t *testing.T) {
	var got httplimit.Refusal
	o := httplimit.Options{OnDenied: func(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
		got = refusal
		w.WriteHeader(http.StatusTeapot)
	}}
	s := newServer(t, o, rule("client", "gcra 1/1500ms"), rule("second", "gcra 100/s"))
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
	require.EqualValues(t, 99, got.Decision.Results[1].Remaining)

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
	shadow := sluice.Rule[*http.Request]{Name: "shadow", Spec: "inflight 1 ttl=30s", Shadow: true, Cost: func(*http.Request) int64 { return 2 }} // holds nothing
	limiter := newLimiter(t, limiterOptions{Clock: still}, nil, shadow, rule("client", "gcra 1/s"))
	served, copied := 0, make(chan *http.Request, 1)
	h := httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, recorder, w)
		require.Same(t, request, r)
		served++
		go func() { copied <- r.WithContext(context.Background()) }() // so the race detector sees a write to r
	}), httplimit.Options{})
	h.ServeHTTP(recorder, request)
	h.ServeHTTP(recorder, request)
	require.Equal(t, 1, served)
	<-copied
	settled := httplimit.Handler(limiterOf(t, nil, "gcra 1/s"), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { require.Same(t, request, r) }), httplimit.Options{SettleRules: true})
	settled.ServeHTTP(recorder, request)
}

func TestMiddlewareInFrontSeesThePatternOfTheRouter(t *testing.T) {
	router := http.NewServeMux()
	router.Handle("/orders/{id}", hello)
	for _, rules := range [][]sluice.Rule[*http.Request]{twoAtOnce(), {rule("client", "gcra 1/s")}} {
		r := httptest.NewRequest("GET", "/orders/7", nil)
		respond(httplimit.Handler(newLimiter(t, limiterOptions{}, nil, rules...), router, httplimit.Options{}), r)
		require.Equal(t, "/orders/{id}", r.Pattern)
	}
}

// These tests promise how many allocations a limiter adds to a request, and what a request costs by its
// length and by its method.

// discardWriter is a ResponseWriter that does nothing, so that only the limiter's allocations count.
type discardWriter struct{ header http.Header }

func (b *discardWriter) Header() http.Header         { return b.header }
func (b *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (b *discardWriter) WriteHeader(int)             {}

// bare is a handler that sets a field, as most do. Otherwise the limiter would be charged
// for the allocation of the header.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = plain
	w.WriteHeader(http.StatusOK)
})

var plain = []string{"text/plain"}

// serve calls the handler with a new header, as net/http does.
func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&discardWriter{header: make(http.Header)}, r)
}

// Four allocations are for the fields, and up to two are for the text of the address.
func TestHandlerAllocatesOnlyTheFields(t *testing.T) {
	for _, peer := range []string{"192.0.2.1:5001", "[2001:db8::1]:5001"} {
		for _, spec := range []string{"gcra 1000000000/s", "all(gcra 1000000/s; gcra 1000000000/m)"} {
			policy := sluice.MustPolicy(spec)
			for _, rule := range []sluice.Rule[*http.Request]{
				{Name: "client", Key: keyOf(t, httplimit.ClientIP{}), Spec: spec},
				{Name: "client", Key: keyOf(t, httplimit.ClientIP{}), PolicyFor: func(*http.Request) (algo.Policy, error) { return policy, nil }},
			} {
				h := httplimit.Handler(sluice.MustFor(nil, rule), bare, httplimit.Options{})
				r := httptest.NewRequest("GET", "/", nil)
				r.RemoteAddr = peer
				without := testing.AllocsPerRun(1000, func() { serve(bare, r) })
				with := testing.AllocsPerRun(1000, func() { serve(h, r) })
				most := 6.0
				if rule.PolicyFor != nil {
					most++ // a reservation, because the policy of a request could hold units
				}
				require.LessOrEqual(t, with-without, most, "%s: %s", peer, spec)
			}
		}
	}
}

func TestCostByContentLength(t *testing.T) {
	cost := httplimit.CostByContentLength(1000)
	chunked := httptest.NewRequest("PUT", "/", strings.NewReader("abc"))
	chunked.ContentLength = -1
	wrapped := httptest.NewRequest("GET", "/", nil)
	wrapped.Body = http.MaxBytesReader(nil, wrapped.Body, 9)
	onClient := func(body io.Reader) *http.Request {
		r, err := http.NewRequest("PUT", "http://example.com/", body)
		require.NoError(t, err)
		return r
	}
	forwarded := onClient(io.NopCloser(strings.NewReader(""))) // by a handler, or received over FastCGI
	forwarded.RemoteAddr = "192.0.2.1:99"
	for _, test := range []struct {
		r    *http.Request
		want int64
	}{
		{forwarded, 1000},
		{httptest.NewRequest("GET", "/", nil), 0},
		{wrapped, 0},
		{&http.Request{RemoteAddr: "192.0.2.1:99"}, 0},
		{httptest.NewRequest("PUT", "/", strings.NewReader("abc")), 3},
		{chunked, 1000},
		{onClient(nil), 0},
		{onClient(http.NoBody), 0},
		{onClient(strings.NewReader("abc")), 3},
		{onClient(io.MultiReader(strings.NewReader("abc"))), 1000}, // its ContentLength of 0 means that the length is not known
	} {
		require.Equal(t, test.want, cost(test.r))
	}
}

func TestCostByMethod(t *testing.T) {
	costs := map[string]int64{"GET": 1, "POST": 10, "OPTIONS": 0}
	cost := httplimit.CostByMethod(costs, 20)
	costs["GET"] = 7 // must not change the cost
	for method, want := range map[string]int64{"GET": 1, "POST": 10, "OPTIONS": 0, "get": 20, "PURGE": 20} {
		require.Equal(t, want, cost(httptest.NewRequest(method, "/", nil)), method)
	}
	require.EqualValues(t, 1, cost(&http.Request{}), "an empty method is a GET")
}

// These tests promise that a denial does not wait for the body of its request.

// maxWait bounds waits that are short unless something is broken.
const maxWait = 20 * time.Second

// exhausted is a server that denies every request.
func exhausted(t *testing.T, wrap func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	limiter := limiterOf(t, nil, "fixedwindow 1/24h")
	_, err := limiter.Allow(t.Context(), httptest.NewRequest("GET", "/", nil))
	require.NoError(t, err)
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "a denied request was served") })
	h := httplimit.Handler(limiter, never, httplimit.Options{})
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// sendRaw opens a connection and sends text on it.
func sendRaw(t *testing.T, server *httptest.Server, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(maxWait)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

const slowPost = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"

// The client sends one byte of its body and no more. The denial arrives, and then the server
// closes the connection.
func TestDenialDoesNotWaitForTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		wrap    func(http.Handler) http.Handler
	}{
		"content-length": {request: slowPost},
		"small":          {request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx"},
		"chunked":        {request: "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"},
		"HTTP/1.0":       {request: "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 100000\r\n\r\nx"},
		"expect":         {request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n"},
		"wrapped writer": {request: slowPost, wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrapper{w}, r) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := bufio.NewReader(sendRaw(t, exhausted(t, c.wrap), c.request))
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.True(t, response.Close, "the response must say that the connection closes")
			require.Equal(t, []string{"own"}, problemOf(t, response).Violated)
			_, err = io.Copy(io.Discard, reader)
			require.NoError(t, err, "the server closes the connection without a reset")
		})
	}
}

// wrapper is a middleware's ResponseWriter.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A client that sends its whole body before it reads must get the denial, and not a
// connection reset.
func TestDenialReachesAClientThatSendsFirst(t *testing.T) {
	server := exhausted(t, nil)
	for _, size := range []int{100, 100_000, 250_000} {
		response, err := http.Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		require.NoError(t, err, "%d bytes", size)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	}
}

// A middleware such as http.MaxBytesHandler wraps also the body of a request that has none.
func TestDenialWithoutABodyKeepsTheConnection(t *testing.T) {
	for _, wrap := range []func(http.Handler) http.Handler{nil, func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 1000) }} {
		conn := sendRaw(t, exhausted(t, wrap), "")
		reader := bufio.NewReader(conn)
		for range 3 {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.False(t, response.Close)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
		}
	}
}
