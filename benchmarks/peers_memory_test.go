package benchmarks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// rateMap is a map of x/time/rate limiters under a mutex, which many programs have.
var rateMap = memoryLimiter{"map of x/time/rate", func(_ testing.TB, count int64, period time.Duration) func(string) bool {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	limit := rate.Limit(float64(count) / period.Seconds())
	return func(key string) bool {
		mu.Lock()
		l, ok := limiters[key]
		if !ok {
			l = rate.NewLimiter(limit, int(count))
			limiters[key] = l
		}
		mu.Unlock()
		return l.Allow()
	}
}}

// rateMaps is one map of x/time/rate limiters for each rule, without a lock. So it is a limiter for one
// goroutine only. Its maps grow with every new key.
func rateMaps(rules int) memoryLimiter {
	name := "unlocked map of x/time/rate"
	if rules > 1 {
		name = numbers[rules] + " unlocked maps of x/time/rate"
	}
	return memoryLimiter{name, func(_ testing.TB, count int64, period time.Duration) func(string) bool {
		maps := make([]map[string]*rate.Limiter, rules)
		for i := range maps {
			maps[i] = make(map[string]*rate.Limiter)
		}
		limit := rate.Limit(float64(count) / period.Seconds())
		return func(key string) bool {
			for _, limiters := range maps {
				l, ok := limiters[key]
				if !ok {
					l = rate.NewLimiter(limit, int(count))
					limiters[key] = l
				}
				if !l.Allow() {
					return false
				}
			}
			return true
		}
	}}
}

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

var sethvargoMemory = memoryLimiter{"sethvargo/go-limiter", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(count), Interval: period})
	must(t, err)
	ctx := deadline(t)
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok && err == nil
	}
}}

// throttledMemory has no limit on its keys. With a limit it uses an LRU cache and is slower.
var throttledMemory = memoryLimiter{"throttled/v2", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	store, err := memstore.NewCtx(0)
	must(t, err)
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(count), period), MaxBurst: int(count) - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	must(t, err)
	ctx := deadline(t)
	return func(key string) bool {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}
}}

var ululeMemory = memoryLimiter{"ulule/limiter/v3", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	l := limiter.New(memory.NewStore(), limiter.Rate{Limit: count, Period: period})
	ctx := deadline(t)
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return !c.Reached && err == nil
	}
}}
