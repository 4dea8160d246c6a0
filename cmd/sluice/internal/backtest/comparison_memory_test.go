package backtest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
)

// TestAComparisonNeedsLittleMemoryForAClient: half of the states never expire before the end, so that
// they cannot be freed.
func TestAComparisonNeedsLittleMemoryForAClient(t *testing.T) {
	const clients = 30_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := backtest.NewComparison(rulesByWho(t, "", "gcra 30/m burst=10", "gcra 100/d"), rulesByWho(t, "", "gcra 20/m burst=10", "gcra 100/d"))
	for i := range clients {
		who := fmt.Sprintf("203.%d.%d.%d", i>>16, i>>8&255, i&255)
		require.NoError(t, c.Add(t.Context(), time.Unix(1_700_000_000+int64(i/100), 0), visit{who: who}, []byte(who)))
	}
	perClient := (heap() - before) / clients
	require.EqualValues(t, clients, c.Report(1).Clients.All)
	t.Logf("%d bytes a client", perClient)
	require.Less(t, perClient, uint64(400), "bytes a client")
}
