package benchmarks

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

var redisRate = serverLimiter{name: "redis_rate", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	limiter := redis_rate.NewLimiter(redisClient(t))
	limit := redis_rate.Limit{Rate: int(count), Period: period, Burst: int(count)}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := limiter.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}
}}

// throttledOnRedis reads and then compares and swaps. A call fails after ten attempts.
var throttledOnRedis = serverLimiter{name: "throttled/v2", mayFail: true, open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	store, err := goredisstore.NewCtx(redisClient(t), "throttled:")
	must(t, err)
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(count), period), MaxBurst: int(count) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	must(t, err)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
}}

var ululeOnRedis = serverLimiter{name: "ulule/limiter", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	store, err := ululeredis.NewStoreWithOptions(redisClient(t), limiter.StoreOptions{Prefix: "ulule"})
	must(t, err)
	l := limiter.New(store, limiter.Rate{Period: period, Limit: count})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return !c.Reached, err
	}
}}
