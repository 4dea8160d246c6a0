package benchmarks

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/httprate"
)

// httprateMemory uses the limiter of a middleware, because go-chi/httprate has no other. So each
// call writes headers to a response.
var httprateMemory = memoryLimiter{"go-chi/httprate", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	l := httprate.NewRateLimiter(int(count), period)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	return func(key string) bool { return !l.OnLimit(header{}, r, key) }
}}

// header is a response without a body.
type header http.Header

func (h header) Header() http.Header         { return http.Header(h) }
func (h header) Write(b []byte) (int, error) { return len(b), nil }
func (h header) WriteHeader(int)             {}
