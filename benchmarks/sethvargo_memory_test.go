package benchmarks

import (
	"context"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
)

var sethvargoMemory = memoryLimiter{"sethvargo/go-limiter", func(t testing.TB, count int64, period time.Duration) func(string) bool {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(count), Interval: period})
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok && err == nil
	}
}}
