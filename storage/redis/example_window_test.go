package redis_test

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage/redis"
)

// The last hour in twelve slots of five minutes, shared by two processes, for
// any number of resources. A repeated denial comes from the cache of its process, and costs no
// round trip. The clock of the server decides, whatever those of the processes say.
func ExampleNew_movingWindow() {
	options := &goredis.Options{
		Addr:                  shared.Redis(servers.Example{}).Addr(), // a redis-server of the tests
		ContextTimeoutEnabled: true,
	}
	one, two := goredis.NewClient(options), goredis.NewClient(options)
	defer one.Close()
	defer two.Close()
	first, second := processOn(one), processOn(two)
	ask := func(process string, l *sluice.Limiter[string], resource string) {
		d, err := l.Allow(context.Background(), resource)
		fmt.Println(process, resource, d.Allowed, "cached", d.Cached, err)
	}
	ask("first", first, "printer")
	ask("second", second, "printer")
	ask("second", second, "printer")
	ask("first", first, "printer")
	ask("first", first, "printer")
	ask("first", first, "scanner")
	// Output:
	// first printer true cached false <nil>
	// second printer true cached false <nil>
	// second printer true cached false <nil>
	// first printer false cached false <nil>
	// first printer false cached true <nil>
	// first scanner true cached false <nil>
}

// processOn stands for the start of a process that has the client.
func processOn(client *goredis.Client) *sluice.Limiter[string] {
	store, err := redis.New(client, redis.Options{Prefix: "window:"})
	if err != nil {
		panic(err)
	}
	return sluice.MustNew(store, "movingwindow 3/hour slots=12")
}
