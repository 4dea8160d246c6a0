package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// Groups of one key each, swapped again and again: the cost is that of one
// group.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("groups=", size), func(b *testing.B) {
			client := goredis.NewClient(&goredis.Options{Addr: shared.Redis(b).Addr(), ContextTimeoutEnabled: true})
			defer client.Close()
			s, err := redis.New(client, redis.Options{Prefix: fmt.Sprintf("bench%d:", prefixes.Add(1))})
			require.NoError(b, err)
			groups := make([][]storage.Swap, size)
			for i := range groups {
				groups[i] = []storage.Swap{creating(fmt.Sprint("key ", i), "the state of a limit")}
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				for i, o := range s.CompareAndSwapBatch(context.Background(), groups...) {
					if !o.Swapped {
						b.Fatal(o)
					}
					s := &groups[i][0]
					s.Old, s.New.Version = s.New.Version, storage.NewVersion()
					s.TTL, s.Until = time.Minute, time.Now().Add(time.Minute)
				}
			}
		})
	}
}
