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

// A client with default options retries by itself and ignores deadlines. A hanging handshake takes it
// 5 s, so faults that hang are left out.
func TestLimiterIsCorrectWithADefaultClient(t *testing.T) {
	var kinds []faultproxy.Kind
	for _, kind := range faultproxy.Kinds() {
		if !kind.Hangs() {
			kinds = append(kinds, kind)
		}
	}
	faultsweep.Run(t, sweepSubjects(t, goredis.Options{PoolSize: 2}), kinds...)
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
