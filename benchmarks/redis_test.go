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

// All use go-redis with the options that docs/recipes.md recommends, and a pool of the default size.
func redisWorkloads() []work {
	alone, many := []serverLimiter{sluiceOnRedis, redisRate, ululeOnRedis, redisRoundTrip}, []serverLimiter{sluiceOnRedis, redisRate, ululeOnRedis}
	speed := func(goal float64) []ratio { return []ratio{{to: redisRate.name, goal: goal}} }
	both := func(goal, p99 float64) []ratio {
		return append(speed(goal), ratio{to: redisRate.name, goal: p99, p99: true})
	}
	with := func(more ...serverLimiter) []serverLimiter { return slices.Insert(slices.Clone(alone), 3, more...) }
	denied := row("redis", 1, 64, 1, "one key, denied", speed(60), with(throttledOnRedis)...)
	denied.denied, denied.more = true, redisTripsOfDenials
	return []work{
		row("redis", 1, 1, 10_000, "10,000 keys", speed(1.1), with(redisRecord)...),
		row("redis", 1, 64, 10_000, "10,000 keys", speed(3.2), with(redisTogether, redisPipeline)...),
		row("redis", 1, 64, 1, "one key", speed(5), with(throttledOnRedis, redisOneRecord)...),
		row("redis", 4, 1, 100, "100 keys", speed(1.05), with(redisRecord)...),
		row("redis", 4, 16, 10_000, "10,000 keys", both(2.4, 0.7), many...),
		row("redis", 4, 16, 100, "100 keys", both(2.4, 0.7), many...),
		row("redis", 4, 16, 1, "one key", both(3.2, 0.45), many...),
		row("redis", 4, 16, 1, "one key, bought ahead", speed(10), sluiceOnRedisPrepaid, redisRate),
		row("redis", 4, 16, 100, "100 keys, bought ahead", speed(4), sluiceOnRedisPrepaid, redisRate),
		row("redis", 4, 16, 10_000, "two rules: 10,000 keys and one", both(2, 0.7), sluiceOnRedisBoth, redisRate),
		denied,
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

// sluiceOnRedisPrepaid buys calls ahead.
var sluiceOnRedisPrepaid = serverLimiter{name: "sluice, Options.Prepay", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	o := sluice.Options[string]{Prepay: sluice.Prepay{Calls: 50, For: 200 * time.Millisecond}}
	l, err := o.New(redisStore(t, "prepaid:"), sluice.Rule[string]{Name: "each", Key: identity, Policy: policyOf(t, count, period)})
	must(t, err)
	return allowOf(l)
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
	must(t, err)
	return s
}

func policyOf(t testing.TB, count int64, period time.Duration) algo.Policy {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(count, period)})
	must(t, err)
	return p
}

func oneRule(t testing.TB, s storage.Store, count int64, period time.Duration) decideFunc {
	return ours(t, s, sluice.Rule[string]{Name: "each", Key: identity, Policy: policyOf(t, count, period)})
}

func ours(t testing.TB, s storage.Store, rules ...sluice.Rule[string]) decideFunc {
	l, err := sluice.For(s, rules...)
	must(t, err)
	return allowOf(l)
}

func allowOf(l *sluice.Limiter[string]) decideFunc {
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
	must(t, script.Load(context.Background(), c).Err())
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
	must(t, script.Load(context.Background(), c).Err())
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
	must(t, script.Load(context.Background(), c).Err())
	return batched(t, 2, count, func(ctx context.Context, keys []string) error {
		pipe := c.Pipeline()
		for range keys {
			script.EvalSha(ctx, pipe, []string{"floor"})
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}}
