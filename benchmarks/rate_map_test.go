package benchmarks

import (
	"sync"
	"testing"
	"time"

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
