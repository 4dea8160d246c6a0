package redis_test

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/redis"
)

// Two processes share a moving window of an hour with twelve slots of five minutes, for each
// resource. The server's clock determines the time. A repeated denial comes from the cache of its
// process and needs no round trip.
func ExampleNew_movingWindow() {
	options := &goredis.Options{
		Addr:                  shared.Redis(servers.Example{}).Addr(), // a server that the tests started
		ContextTimeoutEnabled: true,
	}
	one, two := goredis.NewClient(options), goredis.NewClient(options)
	defer one.Close()
	defer two.Close()
	first, second := processOn(one), processOn(two)
	allow := func(process string, l *sluice.Limiter[string], resource string) {
		d, err := l.Allow(context.Background(), resource)
		fmt.Println(process, resource, d.Allowed, "cached", d.Cached, err)
	}
	allow("first", first, "printer")
	allow("second", second, "printer")
	allow("second", second, "printer")
	allow("first", first, "printer")
	allow("first", first, "printer")
	allow("first", first, "scanner")
	// Output:
	// first printer true cached false <nil>
	// second printer true cached false <nil>
	// second printer true cached false <nil>
	// first printer false cached false <nil>
	// first printer false cached true <nil>
	// first scanner true cached false <nil>
}

// processOn returns the limiter of a process with this client.
func processOn(client *goredis.Client) *sluice.Limiter[string] {
	store, err := redis.New(client, redis.Options{Prefix: "window:"})
	if err != nil {
		panic(err)
	}
	return sluice.MustNew(store, "movingwindow 3/hour slots=12")
}
