package serve

import (
	"log/slog"
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
	read      prometheus.Gauge
	purges    *prometheus.CounterVec
	upstream  *prometheus.CounterVec

	forwarding *prometheus.CounterVec
}

func newMetrics(version string, store storage.Store) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reloads_total", Help: "Readings of the rules after the first, by outcome."}, []string{"outcome"}),
		purges:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_purges_total", Help: "Times that expired records were removed from the store, by outcome."}, []string{"outcome"}),
		read:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules_read_timestamp_seconds", Help: "Unix time at which the rules that are in force were read."}),
		rules:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules", Help: "Rules that are in force."}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_upstream_failures_total", Help: "Requests let through that the upstream did not answer, by the status sent in its place."}, []string{"status"}),
	}
	m.forwarding = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_forwarding_faults_total", Help: "Requests whose client may be another than the one they were limited as, by reason: a forwarding field of a peer that is not trusted, or one of a trusted proxy without an address."}, []string{"reason"})
	var err error
	if m.decisions, err = observe.NewMetrics(m.registry); err != nil {
		return nil, err
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_build_info", Help: "1, with the version that serves.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	all := []prometheus.Collector{m.reloads, m.rules, m.read, m.purges, m.upstream, m.forwarding, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if s, ok := store.(*memory.Store); ok {
		all = append(all, observe.NewMemoryCollector("decisions", s))
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	for _, outcome := range [...]string{succeeded, failed} { // there from the start
		m.reloads.WithLabelValues(outcome)
		m.purges.WithLabelValues(outcome)
	}
	return m, nil
}

// The outcomes of reloads and purges.
const (
	succeeded = "ok"
	failed    = "failed"
)

func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: errorLog(log, "metrics could not be gathered")})
}
