package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/faultsweep"
)

// A client with default options retries by itself and ignores deadlines.
func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	server := shared.Redis(t)
	direct := open(t, newClient(t, server.Addr()), "sweep:")
	for name, ownDeadline := range map[string]bool{"defaults": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
				proxy := faultproxy.Redis(t, server.Addr())
				client := newClientWith(t, goredis.Options{Addr: proxy.Addr(), PoolSize: 2, ContextTimeoutEnabled: ownDeadline})
				return faultsweep.Subject{Proxy: proxy, Store: open(t, client, "sweep:"), Direct: direct}
			})
		})
	}
}
