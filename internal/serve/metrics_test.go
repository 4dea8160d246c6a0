package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	w := started(t, oneByIP, before(t, hello), func(o *Options) { o.Version, o.MaxKeys = "v1.2.3", 2 })
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
		`go_goroutines`,
		`process_start_time_seconds`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "secret-key")
}

func TestDeniedKeys(t *testing.T) {
	w := started(t, oneByIP, before(t, hello))
	w.allowed(5)
	require.Contains(t, fetch(t, w.apiURL("/debug/denied")).body, `127.0.0.1`)
	require.NotContains(t, w.logged.String(), `127.0.0.1"`, "a line per request")
}

// TestNoObserverWithoutNeed keeps the quick way of a limiter in memory open.
func TestNoObserverWithoutNeed(t *testing.T) {
	w := started(t, oneByIP, before(t, hello), func(o *Options) { o.API = "" })
	require.Nil(t, w.observer(proxySide))
	require.Nil(t, w.APIAddr())
	require.Equal(t, 1, w.allowed(1))
}
