package benchmarks

import (
	"context"
	"testing"
	"time"

	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

var ululeOnRedis = serverLimiter{name: "ulule/limiter", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	store, err := ululeredis.NewStoreWithOptions(redisClient(t), limiter.StoreOptions{Prefix: "ulule"})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(store, limiter.Rate{Period: period, Limit: count})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return !c.Reached, err
	}
}}
