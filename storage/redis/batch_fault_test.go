package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage/driver"
)

// A write that meets a fault is applied at most once, because the client does not send it again. The next batch is decided on
// what the first one has stored.
func TestClientDoesNotRetryAWrite(t *testing.T) {
	t.Parallel()
	policy, p := programOf(t, algo.Per(100, 1000*time.Hour))
	for name, connect := range retryingClients {
		for _, kind := range faultproxy.Kinds() {
			t.Run(name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				s, direct, proxy := proxied(t, shared.Redis(t), connect)
				swapWithFault(t, s, direct, proxy, faultproxy.Fault{At: 1, Kind: kind})
				key := func(key string) string { return textOf("tenant", key) } // all in one slot
				for _, newBatch := range []func() *driver.Batch{
					func() *driver.Batch { return oneRequest(p, key("one")) },
					func() *driver.Batch { return oneRequest(p, key("a"), key("b")) },
					func() *driver.Batch { return requestEach(p, key("c"), key("d")) },
				} {
					runOK(t, direct, newBatch()) // loads the script
					b := newBatch()
					proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
					run(t, s, b)
					requireUnknown(t, b.Err)
					waitFor(t, func() bool { proxy.Release(); return proxy.Hits() == 1 })
					require.Equal(t, 1, proxy.Exchanges(), "the client must not retry a write")
					used := int64(1)
					if kind.Applied() {
						used++
					}
					if kind != faultproxy.LateRequest { // it may be applied meanwhile
						for _, key := range b.Keys {
							require.EqualValues(t, used, usedOf(t, direct, policy, key))
						}
						proxy.Plan()
						runUntilOK(t, s, newBatch)
						for _, key := range b.Keys {
							require.EqualValues(t, used+1, usedOf(t, direct, policy, key))
						}
					}
				}
			})
		}
	}
}

// runUntilOK runs batches until the store is available.
func runUntilOK(t *testing.T, s driver.Server, newBatch func() *driver.Batch) {
	t.Helper()
	waitFor(t, func() bool {
		b := newBatch()
		run(t, s, b)
		require.Nil(t, b.KeyErr)
		return b.Err == nil
	})
}
