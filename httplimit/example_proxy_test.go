package httplimit_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// fieldsKey is the key of a context whose value is the limiter's header fields.
type fieldsKey struct{}

// addFields adds the limiter's fields to a header. Items of RateLimit and RateLimit-Policy
// share one field line, because many clients read only the first line of a field.
func addFields(ctx context.Context, h http.Header) {
	fields, _ := ctx.Value(fieldsKey{}).(http.Header)
	for name, values := range fields {
		h[name] = slices.Concat(values, h[name])
		if strings.HasPrefix(name, "Ratelimit") {
			h[name] = []string{strings.Join(h[name], ", ")}
		}
	}
}

// behindLimiter takes the limiter's fields out of the header until the proxy has the
// response, because an interim response would clear them.
func behindLimiter(proxy *httputil.ReverseProxy) http.Handler {
	proxy.ModifyResponse = func(response *http.Response) error {
		for _, legacy := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			response.Header.Del(legacy) // the limiter sets these
		}
		addFields(response.Request.Context(), response.Header)
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, _ error) {
		addFields(r.Context(), w.Header())
		w.WriteHeader(http.StatusBadGateway)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), fieldsKey{}, maps.Clone(w.Header()))
		clear(w.Header())
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A reverse proxy in front of a backend that sends an interim response and has limits of its
// own.
func ExampleHandler_reverseProxy() {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("RateLimit", `"program";r=99`)
		w.Header().Set("X-RateLimit-Remaining", "99")
	}))
	defer program.Close()
	limiter := sluice.MustFor(frozen(), sluice.Rule[*http.Request]{Name: "client", Spec: "gcra 2/m"})
	target, err := url.Parse(program.URL)
	check(err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(httplimit.Handler(limiter, behindLimiter(proxy), httplimit.Options{Legacy: true}))
	defer server.Close()

	response, err := server.Client().Get(server.URL)
	check(err)
	_ = response.Body.Close()
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Remaining"} {
		fmt.Println(name, response.Header.Values(name))
	}
	// Output:
	// RateLimit-Policy ["client";q=2;w=60]
	// RateLimit ["client";r=1;t=30, "program";r=99]
	// X-RateLimit-Remaining [1]
}
