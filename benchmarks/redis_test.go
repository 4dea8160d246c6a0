package benchmarks

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// All use go-redis with the options that docs/recipes.md recommends, and a pool of the
// default size.
var (
	redisPeers  = []serverLimiter{sluiceOnRedis, redisRate, ululeOnRedis}
	redisFloors = []serverLimiter{redisRoundTrip}
)

// Names of workloads begin with the number of processes x callers.
func redisWorkloads() []work {
	peer := redisRate.name
	floors := func(more ...serverLimiter) []serverLimiter { return slices.Concat(redisPeers, more, redisFloors) }
	return []work{
		{
			area: "redis", name: "1x1, 10,000 keys", keys: 10_000, goroutines: 1,
			limiters: floors(redisRecord), goals: []ratio{{to: peer, goal: 1.1}},
		}, {
			area: "redis", name: "1x64, 10,000 keys", keys: 10_000, goroutines: 64,
			limiters: floors(redisTogether, redisPipeline), goals: []ratio{{to: peer, goal: 3.2}},
		}, {
			area: "redis", name: "1x64, one key", keys: 1, goroutines: 64,
			limiters: floors(throttledOnRedis, redisOneRecord), goals: []ratio{{to: peer, goal: 5}},
		}, {
			area: "redis", name: "4x1, 100 keys", keys: 100, goroutines: 1, processes: 4,
			limiters: floors(redisRecord), goals: []ratio{{to: peer, goal: 1.05}},
		}, {
			area: "redis", name: "4x16, 10,000 keys", keys: 10_000, goroutines: 16, processes: 4,
			limiters: redisPeers, goals: []ratio{{to: peer, goal: 2.4}, {to: peer, goal: 0.7, p99: true}},
		}, {
			area: "redis", name: "4x16, 100 keys", keys: 100, goroutines: 16, processes: 4,
			limiters: redisPeers, goals: []ratio{{to: peer, goal: 2.4}, {to: peer, goal: 0.7, p99: true}},
		}, {
			area: "redis", name: "4x16, one key", keys: 1, goroutines: 16, processes: 4,
			limiters: redisPeers, goals: []ratio{{to: peer, goal: 3.2}, {to: peer, goal: 0.45, p99: true}},
		}, {
			area: "redis", name: "4x16, two rules: 10,000 keys and one", keys: 10_000, goroutines: 16, processes: 4,
			limiters: []serverLimiter{sluiceOnRedisBoth, redisRate},
			goals:    []ratio{{to: peer, goal: 2}, {to: peer, goal: 0.7, p99: true}},
		}, {
			area: "redis", name: "1x64, one key, denied", keys: 1, goroutines: 64, denied: true,
			limiters: floors(throttledOnRedis), goals: []ratio{{to: peer, goal: 60}}, more: redisTripsOfDenials,
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

var sluiceOnRedis = serverLimiter{name: "sluice", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	return oneRule(t, redisStore(t, "one:"), count, period)
}}

// sluiceOnRedisBoth has a limit for each key, and one that all keys share.
var sluiceOnRedisBoth = serverLimiter{name: "sluice, two rules", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	p := policyOf(t, count, period)
	return ours(t, redisStore(t, "both:"),
		sluice.Rule[string]{Name: "each", Key: identity, Policy: p},
		sluice.Rule[string]{Name: "all", Key: func(string) string { return "" }, Policy: p})
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

func oneRule(t testing.TB, s storage.Store, count int64, period time.Duration) decideFunc {
	return ours(t, s, sluice.Rule[string]{Name: "each", Key: identity, Policy: policyOf(t, count, period)})
}

func ours(t testing.TB, s storage.Store, rules ...sluice.Rule[string]) decideFunc {
	l, err := sluice.For(s, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}
}

// redisRoundTrip only sends GET.
var redisRoundTrip = serverLimiter{name: "floor: GET", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	c := redisClient(t)
	return func(ctx context.Context, key string) (bool, error) {
		err := c.Get(ctx, "floor:"+key).Err()
		if err == goredis.Nil {
			err = nil
		}
		return count > 1, err
	}
}}

// redisTogether runs a script that reads and writes the records of all waiting callers. It
// ignores what it reads.
var redisTogether = serverLimiter{name: "floor: records, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	c := redisClient(t)
	script := goredis.NewScript(`
redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do redis.call('PSETEX', KEYS[i], 60000, ARGV[1]) end
return #KEYS`)
	if err := script.Load(context.Background(), c).Err(); err != nil {
		t.Fatal(err)
	}
	record := strings.Repeat("x", 28)
	return batched(t, 2, count, func(ctx context.Context, keys []string) error {
		for i := range keys {
			keys[i] = "together:" + keys[i]
		}
		return script.EvalSha(ctx, c, keys, record).Err()
	})
}}

// redisRecordScript reads and writes one record. Every decision on the server must do that.
const redisRecordScript = `
local found = redis.call('GET', KEYS[1])
redis.call('PSETEX', KEYS[1], 60000, ARGV[1])
return found`

// runRedisRecordScript returns a function that runs redisRecordScript.
func runRedisRecordScript(t testing.TB) func(ctx context.Context, key string) error {
	c, script, record := redisClient(t), goredis.NewScript(redisRecordScript), strings.Repeat("x", 28)
	if err := script.Load(context.Background(), c).Err(); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, key string) error {
		err := script.EvalSha(ctx, c, []string{"record:" + key}, record).Err()
		if err == goredis.Nil {
			err = nil
		}
		return err
	}
}

// redisRecord runs the script once for each call.
var redisRecord = serverLimiter{name: "floor: one record", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	run := runRedisRecordScript(t)
	return func(ctx context.Context, key string) (bool, error) { return count > 1, run(ctx, key) }
}}

// redisOneRecord runs the script once for all waiting callers. With more than one script in flight
// it is slower.
var redisOneRecord = serverLimiter{name: "floor: one record, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	run := runRedisRecordScript(t)
	return batched(t, 1, count, func(ctx context.Context, keys []string) error { return run(ctx, keys[0]) })
}}

// redisPipeline runs a script that does nothing, in a pipeline for all waiting callers.
var redisPipeline = serverLimiter{name: "floor: pipelined script", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	c := redisClient(t)
	script := goredis.NewScript("return 1")
	if err := script.Load(context.Background(), c).Err(); err != nil {
		t.Fatal(err)
	}
	return batched(t, 2, count, func(ctx context.Context, keys []string) error {
		pipe := c.Pipeline()
		for range keys {
			script.EvalSha(ctx, pipe, []string{"floor"})
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}}
