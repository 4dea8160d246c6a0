package redis_test

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/redis"
)

// Two processes share a limit of 3 requests a minute for each user. Each process has its own client
// and limiter.
func ExampleNew() {
	addr := shared.Redis(servers.Example{}).Addr() // a server that the tests started
	process := func() (*sluice.Limiter[string], *goredis.Client, error) {
		client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
		store, err := redis.New(client, redis.Options{Prefix: "example:"})
		if err != nil {
			return nil, nil, err
		}
		limiter, err := sluice.Options[string]{
			Clock: fixedClock, // so that the output is always the same
		}.New(store, sluice.PerKey("gcra 3/min"))
		return limiter, client, err
	}
	for _, name := range []string{"first", "second"} {
		limiter, client, err := process()
		if err != nil {
			fmt.Println(err)
			return
		}
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
