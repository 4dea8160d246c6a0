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

// metrics has the metrics of /metrics, in their own registry.
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
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reloads_total", Help: "Reloads of the rules, by outcome."}, []string{"outcome"}),
		purges:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_purges_total", Help: "Removals of expired records from the store, by outcome."}, []string{"outcome"}),
		read:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules_read_timestamp_seconds", Help: "Unix time at which the current rules were read."}),
		rules:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_rules", Help: "Number of rules."}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_upstream_failures_total", Help: "Allowed requests that the upstream did not answer, by the status that the client got."}, []string{"status"}),
	}
	m.forwarding = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_forwarding_faults_total", Help: "Requests that may have been limited under the wrong address, by reason: untrusted_peer is a forwarding header from a peer that is not trusted, no_address is one from a trusted proxy without an address."}, []string{"reason"})
	var err error
	if m.decisions, err = observe.NewMetrics(m.registry); err != nil {
		return nil, err
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_build_info", Help: "Always 1; the label has the version of sluice.", ConstLabels: prometheus.Labels{"version": version}})
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
	for _, outcome := range [...]string{succeeded, failed} { // so that the series exist from the start
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
