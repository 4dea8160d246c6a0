package observe

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/compose"
)

// limiter counts for one value of the label of that name.
type limiter struct {
	metrics *Metrics
	name    string
	skew    prometheus.Observer
	kinds   []kind

	calls   kept[call, *counted]
	shadows kept[call, prometheus.Counter]
	faults  kept[fault, prometheus.Counter]
}

// call is what decisions that are counted alike have in common. Rules are those of
// the limiter, so there are no more calls than rules times operations and outcomes.
type call struct {
	op      compose.Op
	rule    string
	outcome compose.Outcome
}

type fault struct {
	op   compose.Op
	kind string
}

// counted is where a call is counted.
type counted struct {
	decisions prometheus.Counter
	cached    prometheus.Counter // nil where no rule can have denied
	retries   prometheus.Counter
	duration  prometheus.Observer
}

func (m *Metrics) newLimiter(name string) *limiter {
	name = label(name)
	l := &limiter{metrics: m, name: name, skew: m.skews.WithLabelValues(name), kinds: kinds()}
	l.calls.open = l.openCall
	l.shadows.open = l.openShadow
	l.faults.open = l.openFault
	return l
}

// observe keeps nothing of the event, whose Results are the caller's.
func (l *limiter) observe(e compose.Event) {
	d := &e.Decision
	c := l.calls.get(call{e.Op, d.Rule, e.Outcome})
	c.decisions.Inc()
	c.duration.Observe(e.Duration.Seconds())
	if d.Cached && c.cached != nil {
		c.cached.Inc()
	}
	if d.Attempts > 1 {
		c.retries.Add(float64(d.Attempts - 1))
	}
	if d.Skew > 0 {
		l.skew.Observe(d.Skew.Seconds())
	}
	if e.Err != nil {
		l.faults.get(fault{e.Op, l.kindOf(e.Err)}).Inc()
	}
	for i := range d.Results { // of shadow rules
		if err := d.Results[i].Err; err != nil {
			l.faults.get(fault{e.Op, l.kindOf(err)}).Inc()
		}
	}
	if asks(e.Op) {
		l.observeRules(&e)
	}
}

// observeRules counts denials of shadow rules. It opens the series of rules that are
// enforced and did not bind: else one begins with the first denial by its rule.
func (l *limiter) observeRules(e *compose.Event) {
	for i := range e.Decision.Results {
		switch r := &e.Decision.Results[i]; {
		case !r.Shadow && r.Rule != e.Decision.Rule:
			l.calls.get(call{e.Op, r.Rule, compose.Denied})
		case r.Shadow && r.Err == nil:
			if denials := l.shadows.get(call{e.Op, r.Rule, e.Outcome}); !r.Allowed {
				denials.Inc()
			}
		}
	}
}

func (l *limiter) kindOf(err error) string {
	for i := range l.kinds {
		if l.kinds[i].is(err) {
			return l.kinds[i].name
		}
	}
	return ""
}

// openCall opens, besides the call's own, series at 0 that are likely to follow: a
// series that begins with its first increment never shows that increment as one.
func (l *limiter) openCall(c call) *counted {
	m, op, rule := l.metrics, string(c.op), label(c.rule)
	for i := range l.kinds {
		m.faults.WithLabelValues(l.name, op, l.kinds[i].name)
	}
	counted := &counted{
		decisions: m.decisions.WithLabelValues(l.name, op, rule, string(c.outcome)),
		retries:   m.retries.WithLabelValues(l.name, op),
		duration:  m.durations.WithLabelValues(l.name, op),
	}
	if asks(c.op) && rule != "" {
		m.decisions.WithLabelValues(l.name, op, rule, string(compose.Allowed))
		m.decisions.WithLabelValues(l.name, op, rule, string(compose.Denied))
		counted.cached = m.cached.WithLabelValues(l.name, op, rule)
	}
	return counted
}

func (l *limiter) openShadow(c call) prometheus.Counter {
	return l.metrics.shadows.WithLabelValues(l.name, string(c.op), label(c.rule), string(c.outcome))
}

func (l *limiter) openFault(f fault) prometheus.Counter {
	return l.metrics.faults.WithLabelValues(l.name, string(f.op), f.kind)
}

// asks reports whether op is one that rules can deny.
func asks(op compose.Op) bool { return op == compose.OpAllow || op == compose.OpPeek }

// label is a name as Prometheus takes it: it panics at what is not UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
