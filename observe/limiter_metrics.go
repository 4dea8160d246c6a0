package observe

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/compose"
)

// limiterMetrics are the metrics with one value of the label limiter.
type limiterMetrics struct {
	metrics *Metrics
	name    string
	skew    prometheus.Observer
	kinds   []errorKind

	decisions copyOnWriteMap[decisionLabels, *decisionMetrics]
	shadows   copyOnWriteMap[decisionLabels, prometheus.Counter]
	errors    copyOnWriteMap[errorLabels, prometheus.Counter]
}

// decisionLabels has bounded values: the operations, the limiter's rules and the outcomes.
type decisionLabels struct {
	op      compose.Op
	rule    string
	outcome compose.Outcome
}

type errorLabels struct {
	op   compose.Op
	kind string
}

type decisionMetrics struct {
	decisions prometheus.Counter
	cached    prometheus.Counter // nil if no rule can have denied
	retries   prometheus.Counter
	duration  prometheus.Observer
}

func (m *Metrics) newLimiterMetrics(name string) *limiterMetrics {
	name = label(name)
	l := &limiterMetrics{metrics: m, name: name, skew: m.skews.WithLabelValues(name), kinds: errorKinds()}
	l.decisions.create = l.newDecisionMetrics
	l.shadows.create = l.newShadowCounter
	l.errors.create = l.newErrorCounter
	return l
}

// observe must not keep the event, because the caller owns its Results.
func (l *limiterMetrics) observe(e compose.Event) {
	d := &e.Decision
	m := l.decisions.get(decisionLabels{e.Op, d.Rule, e.Outcome})
	m.decisions.Inc()
	m.duration.Observe(e.Duration.Seconds())
	if d.Cached && m.cached != nil {
		m.cached.Inc()
	}
	if d.Attempts > 1 {
		m.retries.Add(float64(d.Attempts - 1))
	}
	if d.Skew > 0 {
		l.skew.Observe(d.Skew.Seconds())
	}
	l.countError(e.Op, e.Err)
	for i := range d.Results {
		l.countError(e.Op, d.Results[i].Err) // of a shadow rule
	}
	if canDeny(e.Op) {
		l.observeRules(&e)
	}
}

func (l *limiterMetrics) countError(op compose.Op, err error) {
	if err == nil {
		return
	}
	for i := range l.kinds {
		if l.kinds[i].matches(err) {
			l.errors.get(errorLabels{op, l.kinds[i].name}).Inc()
			return
		}
	}
}

// observeRules counts the denials of shadow rules. It also creates the denial counters of
// enforced rules that did not decide, so that they are 0 before their first denial.
func (l *limiterMetrics) observeRules(e *compose.Event) {
	for i := range e.Decision.Results {
		switch r := &e.Decision.Results[i]; {
		case !r.Shadow && r.Rule != e.Decision.Rule:
			l.decisions.get(decisionLabels{e.Op, r.Rule, compose.Denied})
		case r.Shadow && r.Err == nil:
			if denials := l.shadows.get(decisionLabels{e.Op, r.Rule, e.Outcome}); !r.Allowed {
				denials.Inc()
			}
		}
	}
}

// newDecisionMetrics also creates series that are likely to follow. Prometheus sees no
// increase in a series that starts with its first increment.
func (l *limiterMetrics) newDecisionMetrics(d decisionLabels) *decisionMetrics {
	all, op, rule := l.metrics, string(d.op), label(d.rule)
	for i := range l.kinds {
		all.errors.WithLabelValues(l.name, op, l.kinds[i].name)
	}
	m := &decisionMetrics{
		decisions: all.decisions.WithLabelValues(l.name, op, rule, string(d.outcome)),
		retries:   all.retries.WithLabelValues(l.name, op),
		duration:  all.durations.WithLabelValues(l.name, op),
	}
	if canDeny(d.op) && rule != "" {
		all.decisions.WithLabelValues(l.name, op, rule, string(compose.Allowed))
		all.decisions.WithLabelValues(l.name, op, rule, string(compose.Denied))
		m.cached = all.cached.WithLabelValues(l.name, op, rule)
	}
	return m
}

func (l *limiterMetrics) newShadowCounter(d decisionLabels) prometheus.Counter {
	return l.metrics.shadows.WithLabelValues(l.name, string(d.op), label(d.rule), string(d.outcome))
}

func (l *limiterMetrics) newErrorCounter(e errorLabels) prometheus.Counter {
	return l.metrics.errors.WithLabelValues(l.name, string(e.op), e.kind)
}

// canDeny reports whether rules can deny the operation.
func canDeny(op compose.Op) bool { return op == compose.OpAllow || op == compose.OpPeek }

// label returns the name as valid UTF-8, because Prometheus panics at other label values.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
