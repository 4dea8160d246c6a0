package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage/driver"
)

// A batch that meets a fault is run again with the same version. Both attempts together apply it once.
func TestRetriedBatchIsAppliedOnce(t *testing.T) {
	t.Parallel()
	policy, p := programOf(t, algo.Per(100, 1000*time.Hour))
	for name, connect := range retryingClients {
		for _, kind := range faultproxy.Kinds() {
			t.Run(name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				s, direct, proxy := proxied(t, shared.Redis(t), connect)
				key := func(key string) string { return textOf("tenant", key) } // all in one slot
				for i, newBatch := range []func() *driver.Batch{
					func() *driver.Batch { return oneRequest(p, key("one")) },
					func() *driver.Batch { return oneRequest(p, key("a"), key("b")) },
					func() *driver.Batch { return requestEach(p, key("c"), key("d")) },
				} {
					runOK(t, direct, newBatch()) // loads the script
					b := newBatch()
					proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
					run(t, s, b)
					requireUnknown(t, b.Err)
					waitFor(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 })
					require.Equal(t, 1, proxy.Exchanges(), "the client must not retry a write")
					if !kind.Applied() {
						for _, key := range b.Keys {
							require.EqualValues(t, 1, usedOf(t, direct, policy, key))
						}
					}
					if kind != faultproxy.LateRequest { // it may be applied between the attempts
						proxy.Plan()
						runUntilOK(t, s, b)
						for _, r := range b.Requests {
							require.Equal(t, kind.Applied(), r.Applied == driver.AlreadyStored, "batch %d", i)
						}
						for _, key := range b.Keys {
							require.EqualValues(t, 2, usedOf(t, direct, policy, key))
						}
					}
				}
			})
		}
	}
}

// runUntilOK runs a batch until the store is available.
func runUntilOK(t *testing.T, s driver.Server, b *driver.Batch) {
	t.Helper()
	waitFor(t, func() bool { run(t, s, b); return b.Err == nil })
	require.Nil(t, b.KeyErr)
}
