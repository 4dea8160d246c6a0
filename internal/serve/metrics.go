package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// metrics are what /metrics shows, in a registry of its own.
type metrics struct {
	registry  *prometheus.Registry
	decisions *observe.Metrics
	reloads   *prometheus.CounterVec
	rules     prometheus.Gauge
	upstream  *prometheus.CounterVec
}

func newMetrics(version string, store storage.Store) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reloads_total", Help: "Readings of the rules after the first, by outcome."}, []string{"outcome"}),
		rules:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules", Help: "Rules that are in force."}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_upstream_failures_total", Help: "Requests let through that the upstream did not answer, by the status sent in its place."}, []string{"status"}),
	}
	var err error
	if m.decisions, err = observe.NewMetrics(m.registry); err != nil {
		return nil, err
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_build_info", Help: "1, with the version that serves.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	all := []prometheus.Collector{m.reloads, m.rules, m.upstream, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if s, ok := store.(*memory.Store); ok {
		all = append(all, observe.NewMemoryCollector("decisions", s))
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	for _, outcome := range [...]string{reloadOK, reloadFailed} {
		m.reloads.WithLabelValues(outcome) // so that both are there from the start
	}
	return m, nil
}

// The outcomes of reloads.
const (
	reloadOK     = "ok"
	reloadFailed = "failed"
)

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
