package redis_test

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/redis"
)

// Two processes share a limit of 3 requests a minute for each user. Each process has its own client
// and limiter.
func ExampleNew() {
	addr := shared.Redis(servers.Example{}).Addr() // a server that the tests started
	process := func() (*sluice.Limiter[string], *goredis.Client) {
		client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
		store, err := redis.New(client, redis.Options{Prefix: "example:"})
		check(err)
		limiter, err := sluice.Options[string]{
			Clock: fixedClock, // so that the output is always the same
		}.New(store, sluice.PerKey("gcra 3/min"))
		check(err)
		return limiter, client
	}
	for _, name := range []string{"first", "second"} {
		limiter, client := process()
		defer client.Close()
		for range 2 {
			d, err := limiter.Allow(context.Background(), "ann")
			fmt.Println(name, d.Allowed, d.Remaining, d.RetryAfter, err)
		}
	}
	// Output:
	// first true 2 0s <nil>
	// first true 1 0s <nil>
	// second true 0 0s <nil>
	// second false 0 20s <nil>
}

// The keys of one decision are in one slot of a Redis Cluster because they have a common group, here
// the tenant.
func ExampleStore_cluster() {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:                 shared.Cluster(servers.Example{}).Addrs(), // servers that the tests started
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
	})
	defer client.Close()
	store, err := redis.New(client, redis.Options{Prefix: "example:"})
	check(err)
	type request struct{ tenant, user string }
	rules := []sluice.Rule[request]{
		sluice.By("tenant", func(r request) string { return r.tenant }, "fixedwindow 2/min"),
		sluice.By("user", func(r request) string { return r.user }, "fixedwindow 2/min"),
	}
	grouped, err := sluice.Options[request]{
		Namespace: "api",
		Group:     func(r request) string { return r.tenant },
		Clock:     func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) },
	}.New(store, rules...)
	check(err)
	for _, user := range []string{"ann", "bob", "bob"} {
		d, err := grouped.Allow(context.Background(), request{"acme", user})
		fmt.Println(user, d.Allowed, d.Rule, err)
	}
	// Output:
	// ann true tenant <nil>
	// bob true tenant <nil>
	// bob false tenant <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
