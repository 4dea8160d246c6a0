package benchmarks

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
)

var redisRate = serverLimiter{name: "redis_rate", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	limiter := redis_rate.NewLimiter(redisClient(t))
	limit := redis_rate.Limit{Rate: int(count), Period: period, Burst: int(count)}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := limiter.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}
}}
