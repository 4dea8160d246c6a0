package benchmarks

import (
	"testing"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

var ululeMemory = memoryLimiter{"ulule/limiter/v3", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	l := limiter.New(memory.NewStore(), limiter.Rate{Limit: count, Period: period})
	ctx := deadline(t)
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return !c.Reached && err == nil
	}
}}
