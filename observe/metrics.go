package observe

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/compose"
)

// Metrics counts what limiters decide, by limiter, rule and outcome, never by key.
// Make it with [NewMetrics]. It is safe for concurrent use.
type Metrics struct {
	decisions *prometheus.CounterVec
	shadows   *prometheus.CounterVec
	cached    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	faults    *prometheus.CounterVec
	skews     *prometheus.HistogramVec
}

// NewMetrics registers the metrics that the package lists, all or none. The error
// wraps the registerer's, usually that they are registered already: then share the
// Metrics that were.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	if registerer == nil {
		return nil, errors.New("observe: NewMetrics needs a registerer, such as prometheus.NewRegistry()")
	}
	m := newMetrics()
	err := registerer.Register(collector{m})
	switch {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return nil, fmt.Errorf("observe: the registerer has these metrics already; share the Metrics that registered them, with an Observer for each limiter: %w", err)
	case err != nil:
		return nil, fmt.Errorf("observe: registering the metrics: %w", err)
	}
	return m, nil
}

// Observer is for the Options of a limiter. The name is the label limiter of all
// that it counts. Observers of one name count together: a limiter made anew, when
// a configuration is read again, goes on where the old one ended.
func (m *Metrics) Observer(limiter string) func(compose.Event) {
	return m.newLimiter(limiter).observe
}

func newMetrics() *Metrics {
	return &Metrics{
		decisions: counter("decisions_total", "Decisions, by the rule that bound.", "limiter", "op", "rule", "outcome"),
		shadows:   counter("shadow_denials_total", "Denials by rules that are not enforced, by what came of the decision without them.", "limiter", "op", "rule", "outcome"),
		cached:    counter("cached_denials_total", "Denials from the denial cache, without a round trip to the store, by the rule that denied.", "limiter", "op", "rule"),
		durations: histogram("decision_duration_seconds", "How long decisions took.", durations(), "limiter", "op"),
		retries:   counter("retries_total", "Attempts at decisions beyond the first.", "limiter", "op"),
		faults:    counter("errors_total", "Errors of decisions, those included that were made all the same.", "limiter", "op", "kind"),
		skews:     histogram("skew_seconds", "How far the states were ahead of the clock that decided, of the decisions where they were.", skews(), "limiter"),
	}
}

const namespace = "sluice"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// durations are from what a decision in memory takes to beyond any sensible timeout.
func durations() []float64 {
	return []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5}
}

// skews are from what honest clocks differ by to what only a broken one does.
func skews() []float64 { return []float64{1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600} }

// collector keeps the methods by which the registry collects out of Metrics. As it
// is one collector, nothing is registered unless everything can be.
type collector struct{ *Metrics }

func (c collector) each() []prometheus.Collector {
	return []prometheus.Collector{c.decisions, c.shadows, c.cached, c.durations, c.retries, c.faults, c.skews}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, metric := range c.each() {
		metric.Describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	for _, metric := range c.each() {
		metric.Collect(metrics)
	}
}
