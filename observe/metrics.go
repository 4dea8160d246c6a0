package observe

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/compose"
)

// Metrics counts the decisions of limiters by limiter, rule and outcome, but never by key.
// Make it with [NewMetrics]. It is safe for concurrent use.
type Metrics struct {
	decisions *prometheus.CounterVec
	shadows   *prometheus.CounterVec
	cached    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	errors    *prometheus.CounterVec
	skews     *prometheus.HistogramVec
}

// NewMetrics registers the metrics that the package comment lists. It registers all of them
// or none. The error wraps the registerer's error. If the metrics are already registered,
// share the Metrics that registered them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	if registerer == nil {
		return nil, errors.New("observe: NewMetrics needs a registerer, such as prometheus.NewRegistry(), got nil")
	}
	m := newMetrics()
	err := registerer.Register(collector{m})
	switch {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return nil, fmt.Errorf("observe: these metrics are already registered; share the Metrics that registered them, and call its Observer for each limiter: %w", err)
	case err != nil:
		return nil, fmt.Errorf("observe: cannot register the metrics: %w", err)
	}
	return m, nil
}

// Observer returns an observer for the Options of a limiter. limiter is the value of the
// label limiter. Observers with the same name add to the same metrics. So the counters
// keep their values if a program replaces a limiter, for example after a change of its
// configuration.
func (m *Metrics) Observer(limiter string) func(compose.Event) {
	return m.newLimiterMetrics(limiter).observe
}

func newMetrics() *Metrics {
	return &Metrics{
		decisions: counter("decisions_total", "Decisions, by the rule that decided.", "limiter", "op", "rule", "outcome"),
		shadows:   counter("shadow_denials_total", "Denials by shadow rules, which are not enforced, by the outcome of the decision.", "limiter", "op", "rule", "outcome"),
		cached:    counter("cached_denials_total", "Denials from the denial cache, without a round trip to the store, by the rule that denied.", "limiter", "op", "rule"),
		durations: histogram("decision_duration_seconds", "The time that decisions took.", durationBuckets(), "limiter", "op"),
		retries:   counter("retries_total", "Attempts at decisions after the first attempt.", "limiter", "op"),
		errors:    counter("errors_total", "Errors of decisions, including those that the failure policy decided.", "limiter", "op", "kind"),
		skews:     histogram("skew_seconds", "How far stored states were ahead of the clock, for decisions where they were.", skewBuckets(), "limiter"),
	}
}

const namespace = "sluice"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// durationBuckets are from the time of a decision in memory to above any sensible timeout.
func durationBuckets() []float64 {
	return []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5}
}

// skewBuckets are from the skew of well-kept clocks to that of a broken clock.
func skewBuckets() []float64 { return []float64{1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600} }

// collector has the methods that a registry needs, so that Metrics does not export them. All
// metrics are one collector, so that all or none of them are registered.
type collector struct{ *Metrics }

func (c collector) all() []prometheus.Collector {
	return []prometheus.Collector{c.decisions, c.shadows, c.cached, c.durations, c.retries, c.errors, c.skews}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, metric := range c.all() {
		metric.Describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	for _, metric := range c.all() {
		metric.Collect(metrics)
	}
}
