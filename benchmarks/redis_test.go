package benchmarks

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// Each is asked for the same keys and limits. All use go-redis with the options that the
// README of sluice recommends, and the size of pool that it has by default.
var (
	redisPeers  = []contender{sluiceOnRedis, redisRate, ululeOnRedis}
	redisFloors = []contender{redisRoundTrip}
)

// redisWorks are named for processes x callers.
func redisWorks() []work {
	peer := redisRate.name
	floors := func(more ...contender) []contender { return slices.Concat(redisPeers, more, redisFloors) }
	return []work{
		{
			area: "redis", name: "1x1, 10,000 keys", keys: 10_000, goroutines: 1,
			contenders: floors(), goals: []ratio{{to: peer, goal: 0.97}},
		}, {
			area: "redis", name: "1x64, 10,000 keys", keys: 10_000, goroutines: 64,
			contenders: floors(redisTogether, redisPipeline), goals: []ratio{{to: peer, goal: 3.2}},
		}, {
			area: "redis", name: "1x64, one key", keys: 1, goroutines: 64,
			contenders: floors(throttledOnRedis, redisOneRecord), goals: []ratio{{to: peer, goal: 8}},
		}, {
			area: "redis", name: "4x1, 100 keys", keys: 100, goroutines: 1, processes: 4,
			contenders: redisPeers, goals: []ratio{{to: peer, goal: 1}},
		}, {
			area: "redis", name: "4x16, 10,000 keys", keys: 10_000, goroutines: 16, processes: 4,
			contenders: redisPeers, goals: []ratio{{to: peer, goal: 2.2}, {to: peer, goal: 0.8, p99: true}},
		}, {
			area: "redis", name: "4x16, 100 keys", keys: 100, goroutines: 16, processes: 4,
			contenders: redisPeers, goals: []ratio{{to: peer, goal: 2.2}, {to: peer, goal: 0.8, p99: true}},
		}, {
			area: "redis", name: "4x16, one key", keys: 1, goroutines: 16, processes: 4,
			contenders: redisPeers, goals: []ratio{{to: peer, goal: 3}, {to: peer, goal: 0.5, p99: true}},
		}, {
			area: "redis", name: "4x16, a key each and one for all", keys: 10_000, goroutines: 16, processes: 4,
			contenders: []contender{sluiceOnRedisBoth, redisRate},
			goals:      []ratio{{to: peer, goal: 1.8}, {to: peer, goal: 1, p99: true}},
		}, {
			area: "redis", name: "1x64, one key, denied", keys: 1, goroutines: 64, denied: true,
			contenders: floors(throttledOnRedis), goals: []ratio{{to: peer, goal: 100}}, more: redisTripsOfDenials,
		},
	}
}

func redisAddress(t testing.TB) string {
	if addr := os.Getenv(redisAddr); addr != "" {
		return addr
	}
	return shared.Redis(t).Addr()
}

func redisClient(t testing.TB) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: redisAddress(t), ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

var sluiceOnRedis = contender{name: "sluice", open: func(t testing.TB, count int64, period time.Duration) decider {
	return oneRule(t, redisStore(t, "one:"), count, period)
}}

// sluiceOnRedisBoth has a limit for each key, and one for all together.
var sluiceOnRedisBoth = contender{name: "sluice, both keys", open: func(t testing.TB, count int64, period time.Duration) decider {
	p := policyOf(t, count, period)
	return ours(t, redisStore(t, "both:"),
		compose.Rule[string]{Name: "each", Key: itself, Policy: p},
		compose.Rule[string]{Name: "all", Key: func(string) string { return "" }, Policy: p})
}}

func redisStore(t testing.TB, prefix string) storage.Store {
	s, err := redis.New(redisClient(t), redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func policyOf(t testing.TB, count int64, period time.Duration) algo.Policy {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(count, period)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func oneRule(t testing.TB, s storage.Store, count int64, period time.Duration) decider {
	return ours(t, s, compose.Rule[string]{Name: "each", Key: itself, Policy: policyOf(t, count, period)})
}

func ours(t testing.TB, s storage.Store, rules ...compose.Rule[string]) decider {
	l, err := compose.New(s, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}
}

// redisRoundTrip is a bare one: GET.
var redisRoundTrip = contender{name: "floor: GET", open: func(t testing.TB, count int64, _ time.Duration) decider {
	c := redisClient(t)
	return func(ctx context.Context, key string) (bool, error) {
		err := c.Get(ctx, "floor:"+key).Err()
		if err == goredis.Nil {
			err = nil
		}
		return count > 1, err
	}
}}

// redisTogether is a script that reads the records of whatever callers are there at
// once, and writes them, without a look at what it read.
var redisTogether = contender{name: "floor: records together", open: func(t testing.TB, count int64, _ time.Duration) decider {
	c := redisClient(t)
	script := goredis.NewScript(`
redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do redis.call('PSETEX', KEYS[i], 60000, ARGV[1]) end
return #KEYS`)
	if err := script.Load(context.Background(), c).Err(); err != nil {
		t.Fatal(err)
	}
	record := strings.Repeat("x", 28)
	return together(t, 2, count, func(ctx context.Context, keys []string) error {
		for i := range keys {
			keys[i] = "together:" + keys[i]
		}
		return script.EvalSha(ctx, c, keys, record).Err()
	})
}}

// redisOneRecord is a write of one record for whatever callers are there at once, without
// a look at what it replaces. Who may lose to others cannot have two under way.
var redisOneRecord = contender{name: "floor: one record together", open: func(t testing.TB, count int64, _ time.Duration) decider {
	c := redisClient(t)
	record := strings.Repeat("x", 28)
	return together(t, 1, count, func(ctx context.Context, _ []string) error {
		return c.Set(ctx, "together", record, time.Minute).Err()
	})
}}

// redisPipeline is a script that does nothing, in pipelines of whatever callers are
// there at once.
var redisPipeline = contender{name: "floor: pipelined script", open: func(t testing.TB, count int64, _ time.Duration) decider {
	c := redisClient(t)
	script := goredis.NewScript("return 1")
	if err := script.Load(context.Background(), c).Err(); err != nil {
		t.Fatal(err)
	}
	return together(t, 2, count, func(ctx context.Context, keys []string) error {
		pipe := c.Pipeline()
		for range keys {
			script.EvalSha(ctx, pipe, []string{"floor"})
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}}
