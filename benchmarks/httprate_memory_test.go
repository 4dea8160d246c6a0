package benchmarks

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/httprate"
)

// httprateMemory decides for one response that is written again and again, since
// go-chi/httprate knows no limiter but that of its middleware. Its headers are
// part of its answer.
var httprateMemory = subject{"go-chi/httprate", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	l := httprate.NewRateLimiter(int(count), period)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	return func(key string) bool { return !l.OnLimit(header{}, r, key) }
}}

// header is a response of nothing but headers.
type header http.Header

func (h header) Header() http.Header         { return http.Header(h) }
func (h header) Write(b []byte) (int, error) { return len(b), nil }
func (h header) WriteHeader(int)             {}
