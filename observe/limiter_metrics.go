package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// limiterMetrics are the metrics with one value of the label limiter.
type limiterMetrics struct {
	*Metrics
	name   string
	skew   prometheus.Observer
	series atomic.Pointer[map[seriesLabels]*series] // the map is never changed, only replaced
}

// seriesLabels has bounded values: the operations, the limiter's rules and the outcomes.
type seriesLabels struct {
	op      sluice.Op
	rule    string
	outcome sluice.Outcome
	shadow  bool // the rule is a shadow rule, and did not decide
}

// series are the metrics of decisions with the same labels. Only denials is set for a shadow
// rule, and only the others are set for the rule that decided.
type series struct {
	denials   prometheus.Counter
	decisions prometheus.Counter
	cached    prometheus.Counter // nil if no rule can have denied
	retries   prometheus.Counter
	duration  prometheus.Observer
}

// Observer returns an observer for the limiter with that label. Those with the same label add up.
func (m *Metrics) Observer(limiter string) func(context.Context, sluice.Event) {
	name := label(limiter)
	l := &limiterMetrics{Metrics: m, name: name, skew: m.skews.WithLabelValues(name)}
	l.series.Store(&map[seriesLabels]*series{})
	return l.observe
}

// observe must not keep the event, because the caller owns its Results.
func (l *limiterMetrics) observe(_ context.Context, e sluice.Event) {
	d := &e.Decision
	m := l.seriesOf(seriesLabels{op: e.Op, rule: d.Rule, outcome: e.Outcome})
	m.decisions.Inc()
	m.duration.Observe(e.Duration.Seconds())
	if d.Cached && m.cached != nil {
		m.cached.Inc()
	}
	if d.Attempts > 1 && !d.Prepaid { // a prepaid call has the attempts of its purchase, whose own decision is counted
		m.retries.Add(float64(d.Attempts - 1))
	}
	if d.Skew > 0 {
		l.skew.Observe(d.Skew.Seconds())
	}
	l.countError(e.Op, e.Err)
	for i := range d.Results {
		l.observeRule(&e, &d.Results[i])
	}
}

// observeRule counts the errors and the denials of shadow rules. It also creates the denial
// counters of enforced rules that did not decide, so that they are 0 before their first denial.
func (l *limiterMetrics) observeRule(e *sluice.Event, r *sluice.RuleResult) {
	l.countError(e.Op, r.Err)
	switch {
	case !canDeny(e.Op):
	case !r.Shadow && r.Rule != e.Decision.Rule:
		l.seriesOf(seriesLabels{op: e.Op, rule: r.Rule, outcome: sluice.Denied})
	case r.Shadow && r.Err == nil:
		if s := l.seriesOf(seriesLabels{e.Op, r.Rule, e.Outcome, true}); !r.Allowed {
			s.denials.Inc()
		}
	}
}

func (l *limiterMetrics) countError(op sluice.Op, err error) {
	if err == nil {
		return
	}
	for _, kind := range errorKinds {
		if kind.causes == nil || slices.ContainsFunc(kind.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			l.errors.WithLabelValues(l.name, string(op), kind.name).Inc()
			return
		}
	}
}

// errorKinds are the values of the label kind. An error that wraps several causes has the first
// kind that matches.
var errorKinds = []struct {
	name   string
	causes []error // nil matches every error
}{
	{"program", []error{storage.ErrProgram}},
	{"outcome_unknown", []error{storage.ErrOutcomeUnknown}},
	{"overloaded", []error{storage.ErrOverloaded}}, // also wraps ErrUnavailable
	{"contended", []error{storage.ErrContended}},
	{"unavailable", []error{storage.ErrUnavailable}}, // often wraps the error of a context
	{"cost", []error{algo.ErrCost}},
	{"state", []error{algo.ErrState, algo.ErrStateVersion}},
	{"skew", []error{sluice.ErrSkew}},
	{"context", []error{context.Canceled, context.DeadlineExceeded}},
	{"other", nil},
}

// seriesOf creates the series of each combination of labels, and never deletes them. To get
// existing series takes no lock and no allocation. A sync.Map would allocate an interface for
// each key.
func (l *limiterMetrics) seriesOf(labels seriesLabels) *series {
	for {
		before := l.series.Load()
		if s, ok := (*before)[labels]; ok {
			return s
		}
		next := maps.Clone(*before)
		next[labels] = l.newSeries(labels) // again the same counters, if another goroutine is faster
		l.series.CompareAndSwap(before, &next)
	}
}

// newSeries also creates series that are likely to follow. Prometheus sees no increase in a
// series that starts with its first increment.
func (l *limiterMetrics) newSeries(labels seriesLabels) *series {
	op, rule, outcome := string(labels.op), label(labels.rule), string(labels.outcome)
	if labels.shadow {
		return &series{denials: l.shadows.WithLabelValues(l.name, op, rule, outcome)}
	}
	for _, kind := range errorKinds {
		l.errors.WithLabelValues(l.name, op, kind.name)
	}
	s := &series{
		decisions: l.decisions.WithLabelValues(l.name, op, rule, outcome),
		retries:   l.retries.WithLabelValues(l.name, op),
		duration:  l.durations.WithLabelValues(l.name, op),
	}
	if canDeny(labels.op) && rule != "" {
		l.decisions.WithLabelValues(l.name, op, rule, string(sluice.Allowed))
		l.decisions.WithLabelValues(l.name, op, rule, string(sluice.Denied))
		s.cached = l.cached.WithLabelValues(l.name, op, rule)
	}
	return s
}

// canDeny reports whether rules can deny the operation.
func canDeny(op sluice.Op) bool { return op == sluice.OpAllow || op == sluice.OpPeek }

// Each returns an observer that calls all that are not nil, in order. If there are none, it returns nil.
func Each(observers ...func(context.Context, sluice.Event)) func(context.Context, sluice.Event) {
	all := slices.DeleteFunc(slices.Clone(observers), func(o func(context.Context, sluice.Event)) bool { return o == nil })
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, e sluice.Event) {
		for _, observer := range all {
			observer(ctx, e)
		}
	}
}
