package serve

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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

func TestMetricsFollowPrometheusNaming(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	w.allowed(1)
	problems, err := testutil.GatherAndLint(w.metrics.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestFailedMetricsAreLogged(t *testing.T) {
	w := startTestServer(t, oneByIP)
	invalid := prometheus.NewDesc("broken", "", nil, nil)
	require.NoError(t, w.metrics.registry.Register(invalidMetric{invalid}))
	fetch(t, w.apiURL("/metrics"))
	require.Contains(t, w.logged.String(), "metrics could not be gathered")
	require.Contains(t, w.logged.String(), "no good")
}

type invalidMetric struct{ *prometheus.Desc }

func (i invalidMetric) Describe(all chan<- *prometheus.Desc) { all <- i.Desc }

func (i invalidMetric) Collect(all chan<- prometheus.Metric) {
	all <- prometheus.NewInvalidMetric(i.Desc, errors.New("no good"))
}

func TestDeniedKeys(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	w.allowed(5)
	require.Contains(t, fetch(t, w.apiURL("/debug/denied")).body, `127.0.0.1`)
	require.NotContains(t, w.logged.String(), `127.0.0.1"`, "a line per request")
}

// TestNoObserverIfNothingUsesIt: limiters in memory are faster without an observer.
func TestNoObserverIfNothingUsesIt(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello), func(o *Options) { o.API = "" })
	require.Nil(t, w.observer(proxySide))
	require.Nil(t, w.api)
	require.Equal(t, 1, w.allowed(1))
}
