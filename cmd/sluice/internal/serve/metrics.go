package serve

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// metrics has the metrics of /metrics, in their own registry.
type metrics struct {
	registry    *prometheus.Registry
	decisions   *observe.Metrics
	rules, read prometheus.Gauge

	reloads, purges, upstream, forwarding *prometheus.CounterVec
}

// The values of the labels of reloads and purges, and of forwarding faults.
const (
	succeeded, failed        = "ok", "failed"
	untrustedPeer, noAddress = "untrusted_peer", "no_address"
)

func newMetrics(version string, store storage.Store) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	var err error
	if m.decisions, err = observe.NewMetrics(m.registry); err != nil {
		panic(err) // the registry is new
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s, ok := store.(*memory.Store); ok {
		m.registry.MustRegister(observe.NewMemoryCollector("decisions", s))
	}
	factory := promauto.With(m.registry)
	factory.NewGauge(prometheus.GaugeOpts{Name: "sluice_build_info", Help: "Always 1; the label has the version of sluice.", ConstLabels: prometheus.Labels{"version": version}}).Set(1)
	m.read = factory.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules_read_timestamp_seconds", Help: "Unix time at which the current rules were read."})
	m.rules = factory.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules", Help: "Number of rules."})
	counter := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values { // so that the series exist from the start
			c.WithLabelValues(value)
		}
		return c
	}
	m.reloads = counter("sluice_reloads_total", "Reloads of the rules, by outcome.", "outcome", succeeded, failed)
	m.purges = counter("sluice_purges_total", "Removals of expired records from the store, by outcome.", "outcome", succeeded, failed)
	m.upstream = counter("sluice_upstream_failures_total", "Allowed requests that the upstream did not answer, by the status that the client got.", "status", "502", "504")
	m.forwarding = counter("sluice_forwarding_faults_total", "Requests whose client address may be wrong, by reason. untrusted_peer: a peer that is not trusted sent X-Forwarded-For or Forwarded, which was not read. no_address: a trusted proxy sent an element that is no address, so the proxy's address was limited.", "reason", untrustedPeer, noAddress)
	return m
}

func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: errorLog(log, "metrics could not be gathered")})
}
