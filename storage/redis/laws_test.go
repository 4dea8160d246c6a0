package redis_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/storagetest"
)

var prefixes atomic.Int64

// harness returns a pair of stores that no other test uses.
func harness(client goredis.UniversalClient) func(t *testing.T) storagetest.Harness {
	return func(t *testing.T) storagetest.Harness {
		prefix := fmt.Sprintf("laws%d:", prefixes.Add(1))
		s := open(t, client, prefix)
		return storagetest.Harness{
			Store:   s,
			Other:   open(t, client, prefix+"x"),
			Advance: func(d time.Duration) { advance(t, client, prefix, d) },
			Spoil:   func(key string) { require.NoError(t, client.LPush(t.Context(), s.NameOf(key), "x").Err()) },
			Slack:   2 * time.Millisecond, // the store and advance each round to 1 ms
		}
	}
}

func open(t *testing.T, client goredis.UniversalClient, prefix string) *redis.Store {
	s, err := redis.New(client, redis.Options{Prefix: prefix})
	require.NoError(t, err)
	return s
}

// advance moves the expiry of each key with the prefix nearer by d.
func advance(t *testing.T, client goredis.UniversalClient, prefix string, d time.Duration) {
	ctx := context.Background()
	each := func(ctx context.Context, c *goredis.Client) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			left, err := c.PTTL(ctx, key).Result()
			if err != nil {
				return err
			}
			if left < 0 {
				continue
			}
			if left -= d; left < 0 {
				err = c.Del(ctx, key).Err()
			} else { // PTTL rounds down to ms
				err = c.PExpire(ctx, key, max(left, time.Millisecond)).Err()
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	switch c := client.(type) {
	case *goredis.Client:
		err = each(ctx, c)
	case *goredis.ClusterClient:
		err = c.ForEachMaster(ctx, each)
	}
	require.NoError(t, err)
}

func TestLaws(t *testing.T) {
	server := shared.Redis(t)
	for name, o := range map[string]*goredis.Options{
		"default options": {Addr: server.Addr()},
		"unix socket, protocol 2, ContextTimeoutEnabled": {Network: "unix", Addr: server.Socket(), Protocol: 2, ContextTimeoutEnabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := goredis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			storagetest.Run(t, harness(client))
		})
	}
}

var _ storage.Store = (*redis.Store)(nil)
