package observe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluice-go/sluice/storage/memory"
)

// Metrics counts the decisions of limiters. It is safe for concurrent use.
type Metrics struct {
	decisions *prometheus.CounterVec
	shadows   *prometheus.CounterVec
	cached    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	errors    *prometheus.CounterVec
	skews     *prometheus.HistogramVec
}

// NewMetrics registers all metrics or none. If they are registered already, share the Metrics that registered them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	if registerer == nil {
		return nil, errors.New("observe: NewMetrics needs a registerer, such as prometheus.NewRegistry(), got nil")
	}
	all := prometheus.NewRegistry() // is a collector too, so that all or none are registered
	metrics := promauto.With(all)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return metrics.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	// The durations go from a decision in memory to above any sensible timeout.
	durations := []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5}
	// The skews go from those of well-kept clocks to that of a broken clock.
	skews := []float64{1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600}
	m := &Metrics{
		decisions: counter("sluice_decisions_total", "Decisions, by the rule that decided.", "limiter", "op", "rule", "outcome"),
		shadows:   counter("sluice_shadow_denials_total", "Denials by shadow rules, which are not enforced, by the outcome of the decision.", "limiter", "op", "rule", "outcome"),
		cached:    counter("sluice_cached_denials_total", "Denials from the denial cache, without a round trip to the store, by the rule that denied.", "limiter", "op", "rule"),
		durations: histogram("sluice_decision_duration_seconds", "The time that decisions took.", durations, "limiter", "op"),
		retries:   counter("sluice_retries_total", "Retries within decisions, after conflicts and lost replies.", "limiter", "op"),
		errors:    counter("sluice_errors_total", "Errors of decisions, including those that the failure policy decided.", "limiter", "op", "kind"),
		skews:     histogram("sluice_skew_seconds", "How far stored states were ahead of the clock, for decisions where they were.", skews, "limiter"),
	}
	err := registerer.Register(all)
	switch {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return nil, fmt.Errorf("observe: these metrics are already registered; share the Metrics that registered them, and call its Observer for each limiter: %w", err)
	case err != nil:
		return nil, fmt.Errorf("observe: cannot register the metrics: %w", err)
	}
	return m, nil
}

// NewMemoryCollector returns a collector with the label store, which reads a memory store at each scrape. It panics if store is
// nil.
func NewMemoryCollector(name string, store *memory.Store) prometheus.Collector {
	if store == nil {
		panic("observe: NewMemoryCollector: the store must not be nil")
	}
	registry := prometheus.NewRegistry() // is a collector too
	metrics := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"store": label(name)}, registry))
	gauge := func(name, help string, value func() float64) {
		metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) {
		metrics.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	gauge("sluice_memory_store_keys", "Records in the store, including expired records that are not deleted yet.",
		func() float64 { return float64(store.Stats().Keys) })
	gauge("sluice_memory_store_keys_limit", "The maximum number of records per rule.",
		func() float64 { return float64(cmp.Or(max(store.MaxKeys, 0), memory.DefaultMaxKeys)) })
	counter("sluice_memory_store_evictions_total", "Unexpired records that were evicted because the store was full. Their keys have a full limit again.",
		func() float64 { return float64(store.Stats().Evicted) })
	counter("sluice_memory_store_expirations_total", "Expired records that were deleted.",
		func() float64 { return float64(store.Stats().Expired) })
	return registry
}

// label returns the name as valid UTF-8, because Prometheus panics at other label values.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
