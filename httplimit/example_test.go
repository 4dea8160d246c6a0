package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// still is a clock that stands still, so that examples print the same every time.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// frozen returns a new store in memory whose clock stands still.
func frozen() storage.Store { return &memory.Store{Clock: still} }

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })

// show sends a request to a handler and prints what a client sees of the limits.
func show(h http.Handler, r *http.Request) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		if values := w.Header().Values(name); len(values) > 0 {
			fmt.Printf("  %s: %s\n", name, strings.Join(values, ", "))
		}
	}
}

// Two requests a minute for each client, by its address.
func ExampleHandler() {
	client, err := httplimit.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}.Key()
	check(err)
	limiter := sluice.MustFor(frozen(), sluice.Rule[*http.Request]{Name: "client", Key: client, Spec: "gcra 2/m"})
	mux := http.NewServeMux()
	mux.Handle("GET /hello", httplimit.Handler(limiter, hello, httplimit.Options{}))

	for range 3 {
		show(mux, httptest.NewRequest("GET", "/hello", nil))
	}
	// Output:
	// 200 hello
	//   RateLimit-Policy: "client";q=2;w=60
	//   RateLimit: "client";r=1;t=30
	// 200 hello
	//   RateLimit-Policy: "client";q=2;w=60
	//   RateLimit: "client";r=0;t=30
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["client"]}
	//   RateLimit-Policy: "client";q=2;w=60
	//   RateLimit: "client";r=0;t=30
	//   Retry-After: 30
}

// Routes with limits of their own, for each account. The limiter stands behind the ServeMux,
// because the mux sets the pattern and the path value.
func ExampleMiddleware() {
	limits := map[string]algo.Policy{
		"POST /accounts/{account}/exports": sluice.MustPolicy("fixedwindow 1/h"),
		"GET /accounts/{account}/orders":   sluice.MustPolicy("gcra 100/m"),
	}
	route, account := httplimit.KeyByPattern(), httplimit.KeyByPathValue("account")
	limiter := sluice.MustFor(frozen(), account.OrFail(sluice.Rule[*http.Request]{
		Name:      "route",
		Key:       httplimit.JoinKeys(route.OrShare(), account.OrShare()),
		PolicyFor: func(r *http.Request) (algo.Policy, error) { return limits[r.Pattern], nil },
	}))
	limit := httplimit.Middleware(limiter, httplimit.Options{})
	mux := http.NewServeMux()
	for pattern := range limits {
		mux.Handle(pattern, limit(hello))
	}

	show(mux, httptest.NewRequest("POST", "/accounts/ann/exports", nil))
	show(mux, httptest.NewRequest("POST", "/accounts/bob/exports", nil))
	show(mux, httptest.NewRequest("GET", "/accounts/ann/orders", nil))
	// Output:
	// 200 hello
	//   RateLimit-Policy: "route";q=1;w=3600
	//   RateLimit: "route";r=0;t=3600
	// 200 hello
	//   RateLimit-Policy: "route";q=1;w=3600
	//   RateLimit: "route";r=0;t=3600
	// 200 hello
	//   RateLimit-Policy: "route";q=100;w=60
	//   RateLimit: "route";r=99;t=1
}

// Uploads pay for each byte. An upload above the capacity is answered with 413.
func ExampleCostByContentLength() {
	const largest = 1 << 20
	limiter := sluice.MustFor(frozen(), sluice.Rule[*http.Request]{
		Name: "upload",
		Key:  httplimit.KeyByHeader("X-Customer").OrShare(),
		Spec: "tokenbucket 1000/s burst=5000",
		Cost: httplimit.CostByContentLength(largest),
	})
	h := httplimit.Handler(limiter, hello, httplimit.Options{
		Bytes: []string{"upload"},
		OnDenied: func(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
			http.Error(w, fmt.Sprint("not now: ", refusal.Violated), refusal.Status)
		},
	})
	for _, size := range []int{4000, 4000, 6000} {
		show(h, httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", size))))
	}
	// Output:
	// 200 hello
	//   RateLimit-Policy: "upload";q=5000;w=5;qu="content-bytes"
	//   RateLimit: "upload";r=1000;t=1
	// 429 not now: [upload]
	//   RateLimit-Policy: "upload";q=5000;w=5;qu="content-bytes"
	//   RateLimit: "upload";r=1000;t=3
	//   Retry-After: 3
	// 413 not now: [upload]
	//   RateLimit-Policy: "upload";q=5000;w=5;qu="content-bytes"
	//   RateLimit: "upload";r=1000
}

func ExampleClientIP() {
	key, err := httplimit.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}.Key()
	check(err)
	for _, hop := range []struct{ peer, forwarded string }{
		{"198.51.100.7:5001", "192.0.2.1"}, // not a trusted proxy, so the field is not read
		{"10.0.0.1:5001", "192.0.2.1"},
		{"10.0.0.1:5001", "203.0.113.9, 192.0.2.1, 10.0.0.2"}, // the client forged the first address
		{"10.0.0.1:5001", "2001:db8:1:2:3:4:5:6"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = hop.peer
		r.Header.Set("X-Forwarded-For", hop.forwarded)
		fmt.Println(key(r))
	}
	// Output:
	// 198.51.100.7
	// 192.0.2.1
	// 192.0.2.1
	// 2001:db8:1:2::/64
}

// The application can count or log requests whose key may be the address of a proxy.
func ExampleClientIP_Check() {
	problem, err := httplimit.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}.Check()
	check(err)
	for _, hop := range []struct{ peer, forwarded string }{
		{"10.0.0.1:5001", "192.0.2.1"},
		{"10.0.1.1:5001", "192.0.2.1"}, // a proxy that is missing in Trusted, or a client
		{"10.0.0.1:5001", "unknown"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = hop.peer
		r.Header.Set("X-Forwarded-For", hop.forwarded)
		fmt.Println(problem(r))
	}
	// Output:
	// <nil>
	// httplimit: a peer that is not trusted sent X-Forwarded-For or Forwarded
	// httplimit: a trusted peer sent X-Forwarded-For or Forwarded with an element that is no address
}

// A client that follows the server's limit. The third request would have to wait for half an
// hour, which is longer than its timeout, so it is not sent.
func ExampleTransport() {
	limiter := sluice.MustFor(frozen(), sluice.Rule[*http.Request]{Name: "client", Spec: "gcra 2/h"})
	server := httptest.NewServer(httplimit.Handler(limiter, hello, httplimit.Options{}))
	defer server.Close()

	client := &http.Client{Transport: new(httplimit.Transport), Timeout: time.Minute}
	for range 3 {
		response, err := client.Get(server.URL)
		if err != nil {
			var notSent *httplimit.WaitError
			if errors.As(err, &notSent) {
				fmt.Println("not sent, delayed by", notSent.By)
			}
			return
		}
		fmt.Println(response.Status, response.Header.Get("RateLimit"))
		_ = response.Body.Close()
	}
	// Output:
	// 200 OK "client";r=1;t=1800
	// 200 OK "client";r=0;t=1800
	// not sent, delayed by the server
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Only failed logins count: a success gives the charge back.
func ExampleOptions_settle() {
	limiter := sluice.MustFor(frozen(), sluice.Rule[*http.Request]{Name: "failures", Spec: "fixedwindow 2/15min"})
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	h := httplimit.Handler(limiter, login, httplimit.Options{
		Settle: func(_ *http.Request, status int, _ int64) int64 {
			if status == http.StatusUnauthorized {
				return 1
			}
			return 0
		},
	})
	for _, password := range []string{"right", "wrong", "right", "wrong", "right"} {
		r := httptest.NewRequest("POST", "/login", nil)
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// wrong 401
	// right 200
	// wrong 401
	// right 429
}

// Each rule counts its own units after the response: the tokens that the handler reports, and requests.
func ExampleOptions_settleRules() {
	tokens := sluice.Rule[*http.Request]{Name: "tokens", Spec: "gcra 1000/m", Cost: func(r *http.Request) int64 {
		if response, found := httplimit.ResponseTo(r); found {
			if used, err := strconv.ParseInt(response.Header.Get("X-Tokens-Used"), 10, 64); err == nil && used >= 0 {
				return used
			}
		}
		return 500 // the estimate
	}}
	requests := sluice.Rule[*http.Request]{Name: "requests", Spec: "gcra 10/m"}
	limiter := sluice.MustFor(frozen(), tokens, requests)
	h := httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Tokens-Used", "120")
	}), httplimit.Options{SettleRules: true})
	r := httptest.NewRequest("POST", "/complete", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	d, err := limiter.Peek(r.Context(), r)
	check(err)
	fmt.Println(d.Results[0].Remaining, "tokens", d.Results[1].Remaining, "requests")
	// Output: 880 tokens 9 requests
}

// status sends a request to a handler and prints the status of the response.
func status(h http.Handler, r *http.Request) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(r.Method, r.Host+r.URL.Path, w.Code)
}

// A limit for each session, by its cookie. A request without the cookie is limited by the
// address of the client.
func ExampleOptionalKey_OrIP() {
	client, err := httplimit.ClientIP{}.Key()
	check(err)
	session := httplimit.KeyByCookie("session").OrIP(client)
	limiter := sluice.MustFor(nil, sluice.By("session", session, "fixedwindow 1/hour"))
	h := httplimit.Handler(limiter, hello, httplimit.Options{})
	for _, cookie := range []string{"a", "a", "b", "", ""} {
		r := httptest.NewRequest("GET", "/"+cookie, nil)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "session", Value: cookie})
		}
		status(h, r)
	}
	// Output:
	// GET example.com/a 200
	// GET example.com/a 429
	// GET example.com/b 200
	// GET example.com/ 200
	// GET example.com/ 429
}

// Requests without an API key share one limit with OrShare, and have no limit with OrSkip.
func ExampleOptionalKey() {
	key := httplimit.KeyByHeader("X-Api-Key")
	for _, rule := range []sluice.Rule[*http.Request]{
		sluice.By("share", key.OrShare(), "fixedwindow 1/hour"),
		key.OrSkip(sluice.Rule[*http.Request]{Name: "skip", Spec: "fixedwindow 1/hour"}),
	} {
		limiter := sluice.MustFor(nil, rule)
		h := httplimit.Handler(limiter, hello, httplimit.Options{})
		for _, value := range []string{"k1", "k1", "", ""} {
			r := httptest.NewRequest("GET", "/"+rule.Name+"/"+value, nil)
			r.Header.Set("X-Api-Key", value)
			status(h, r)
		}
	}
	// Output:
	// GET example.com/share/k1 200
	// GET example.com/share/k1 429
	// GET example.com/share/ 200
	// GET example.com/share/ 429
	// GET example.com/skip/k1 200
	// GET example.com/skip/k1 429
	// GET example.com/skip/ 200
	// GET example.com/skip/ 200
}

// A limit for each host that the server answers for, in any spelling.
func ExampleKeyByHost() {
	limiter := sluice.MustFor(nil, sluice.By("host", httplimit.KeyByHost, "fixedwindow 1/hour"))
	h := httplimit.Handler(limiter, hello, httplimit.Options{})
	for _, host := range []string{"a.example", "A.EXAMPLE", "b.example"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		status(h, r)
	}
	// Output:
	// GET a.example/ 200
	// GET A.EXAMPLE/ 429
	// GET b.example/ 200
}

// The cost of a request depends on its method: a GET costs 1 unit, other methods cost 5.
func ExampleCostByMethod() {
	limiter := sluice.MustFor(nil, sluice.Rule[*http.Request]{
		Name: "client",
		Spec: "fixedwindow 7/hour",
		Cost: httplimit.CostByMethod(map[string]int64{"GET": 1}, 5),
	})
	h := httplimit.Handler(limiter, hello, httplimit.Options{})
	for _, method := range []string{"PUT", "DELETE", "GET"} {
		status(h, httptest.NewRequest(method, "/", nil))
	}
	// Output:
	// PUT example.com/ 200
	// DELETE example.com/ 429
	// GET example.com/ 200
}
