package benchmarks

import (
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledMemory has no limit on its keys. With a limit it uses an LRU cache and is slower.
var throttledMemory = memoryLimiter{"throttled/v2", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	store, err := memstore.NewCtx(0)
	if err != nil {
		t.Fatal(err)
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(count), period), MaxBurst: int(count) - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	return func(key string) bool {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}
}}
