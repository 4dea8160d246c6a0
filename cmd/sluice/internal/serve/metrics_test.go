package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello), func(o *Options) { o.Version, o.MaxKeys = "v1.2.3", 2 })
	require.Equal(t, 3, w.allowed(5))
	w.decide("allow", `{"key":"secret-key"}`)
	text := fetch(t, w.apiURL("/metrics")).body
	for _, want := range []string{
		`sluice_decisions_total{limiter="proxy",op="allow",outcome="denied",rule="client"} 2`,
		`sluice_decisions_total{limiter="service",op="allow",outcome="allowed",rule="client"} 1`,
		`sluice_memory_store_keys_limit{store="decisions"} 2`,
		`sluice_build_info{version="v1.2.3"} 1`,
		`sluice_rules 1`,
		`sluice_reloads_total{outcome="failed"} 0`,
		`sluice_upstream_failures_total{status="502"} 0`,
		`sluice_upstream_failures_total{status="504"} 0`,
		`sluice_purges_total{outcome="failed"} 0`,
		`sluice_rules_read_timestamp_seconds 1.`,
		`go_goroutines`,
		`process_start_time_seconds`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "secret-key")
}

// TestNewKeysNeedNoMemory: beyond --max-keys, a new key replaces another one.
func TestNewKeysNeedNoMemory(t *testing.T) {
	const maxKeys = 300
	w, err := newTestServer(t, manyByIP, func(o *Options) { o.MaxKeys = maxKeys })
	require.NoError(t, err)
	h := w.Routes(false)
	heap := func(keys int) (after uint64) {
		for i := range keys {
			require.Equal(t, http.StatusOK, post(h, "/v1/allow", fmt.Sprintf(`{"key":"%d of %d"}`, i, keys)).Code)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap(10 * maxKeys)
	require.Less(t, heap(50*maxKeys), before+100*50*maxKeys, "less than 100 bytes for each new key")
	metrics := send(h, httptest.NewRequest(http.MethodGet, "/metrics", nil)).Body.String()
	require.Contains(t, metrics, fmt.Sprintf("sluice_memory_store_keys{store=\"decisions\"} %d\n", maxKeys))
}

func TestMetricsFollowPrometheusNaming(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	w.allowed(1)
	problems, err := testutil.GatherAndLint(w.metrics.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
