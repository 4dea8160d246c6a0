package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/faultsweep"
)

func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	faultsweep.Run(t, sweepSubjects(t, goredis.Options{PoolSize: 2, ContextTimeoutEnabled: true}))
}

// A client with default options retries by itself and ignores deadlines.
func TestLimiterIsCorrectWithADefaultClient(t *testing.T) {
	faultsweep.Run(t, sweepSubjects(t, goredis.Options{PoolSize: 2}))
}

func sweepSubjects(t *testing.T, o goredis.Options) func(t *testing.T) faultsweep.Subject {
	server := shared.Redis(t)
	direct := open(t, newClient(t, server.Addr()), "sweep:")
	return func(t *testing.T) faultsweep.Subject {
		proxy := faultproxy.Redis(t, server.Addr())
		o := o
		o.Addr = proxy.Addr()
		client := goredis.NewClient(&o)
		t.Cleanup(func() { client.Close() })
		return faultsweep.Subject{Proxy: proxy, Store: open(t, client, "sweep:"), Direct: direct}
	}
}
