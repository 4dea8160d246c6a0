package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

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

// The cost of a request depends on its route: a search costs 5 units, other routes cost 1.
// The limiter stands behind the mux, because the mux sets Request.Pattern.
func ExampleMiddleware_costByRoute() {
	costs := map[string]int64{"GET /search": 5, "POST /exports": 20}
	limiter := sluice.MustFor(nil, sluice.Rule[*http.Request]{
		Name: "client",
		Spec: "fixedwindow 12/hour",
		Cost: func(r *http.Request) int64 {
			if cost, found := costs[r.Pattern]; found {
				return cost
			}
			return 1
		},
	})
	limit := httplimit.Middleware(limiter, httplimit.Options{})
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /search", "GET /orders/{id}", "POST /exports"} {
		mux.Handle(pattern, limit(hello))
	}
	status(mux, httptest.NewRequest("GET", "/search", nil))
	status(mux, httptest.NewRequest("GET", "/search", nil))
	status(mux, httptest.NewRequest("GET", "/search", nil))
	status(mux, httptest.NewRequest("GET", "/orders/7", nil))
	status(mux, httptest.NewRequest("POST", "/exports", nil)) // more than the limit
	// Output:
	// GET example.com/search 200
	// GET example.com/search 200
	// GET example.com/search 429
	// GET example.com/orders/7 200
	// POST example.com/exports 422
}
