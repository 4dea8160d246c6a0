package redis_test

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
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
	lastHour, err := compose.ParsePolicy("movingwindow 3/h slots=12")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second := processOn(one, lastHour), processOn(two, lastHour)
	allow := func(process string, l *compose.Limiter[string], resource string) {
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
func processOn(client *goredis.Client, policy algo.Policy) *compose.Limiter[string] {
	store, err := redis.New(client, redis.Options{Prefix: "window:"})
	if err != nil {
		panic(err)
	}
	limiter, err := compose.New(store, compose.Rule[string]{
		Name:   "resource",
		Key:    func(resource string) string { return resource },
		Policy: policy,
	})
	if err != nil {
		panic(err)
	}
	return limiter
}
