package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/faultsweep"
)

// A client with default options retries by itself and ignores deadlines. With ContextTimeoutEnabled it
// differs only if a call hangs.
func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	server := shared.Redis(t)
	direct := open(t, newClient(t, server.Addr()), "sweep:")
	sweep := func(ownDeadline bool, kinds ...faultproxy.Kind) func(*testing.T) {
		return func(t *testing.T) {
			faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
				proxy := faultproxy.Redis(t, server.Addr())
				client := newClientWith(t, goredis.Options{Addr: proxy.Addr(), PoolSize: 2, ContextTimeoutEnabled: ownDeadline})
				return faultsweep.Subject{Proxy: proxy, Store: open(t, client, "sweep:"), Direct: direct}
			}, kinds...)
		}
	}
	t.Run("defaults", sweep(false))
	t.Run("ContextTimeoutEnabled", sweep(true, faultproxy.StallRequest, faultproxy.LateRequest, faultproxy.StallReply))
}
