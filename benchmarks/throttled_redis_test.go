package benchmarks

import (
	"context"
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// throttledOnRedis reads and then compares and swaps. A call fails after ten attempts.
var throttledOnRedis = serverLimiter{name: "throttled/v2", mayFail: true, open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	store, err := goredisstore.NewCtx(redisClient(t), "throttled:")
	if err != nil {
		t.Fatal(err)
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(count), period), MaxBurst: int(count) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
}}
