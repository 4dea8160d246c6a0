// Package otel observes limiters with OpenTelemetry. It counts decisions, measures their duration, and adds an event to the span
// of a call that is denied, or for which the store failed. It is a module of its own.
//
//	observer, err := otel.New(nil) // the global MeterProvider
//	limiter, err := sluice.Options[string]{Observer: observer.Limiter("api")}.New(store, rules...)
//
// The metrics are
//
//	sluice.decisions           decisions, by limiter, op, rule and outcome
//	sluice.decision.duration   a histogram of seconds, by limiter and op
//	sluice.shadow_denials      denials by shadow rules, by limiter, op and rule
//
// The attributes begin with "sluice.". No attribute has a key, because keys can be secret, and there can be many.
package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-go/sluice"
)

// The events in the span of a call.
const (
	DeniedEvent   = "sluice.denied"   // a rule denied the call
	DegradedEvent = "sluice.degraded" // the store failed, and Options.OnFailure decided
	FailedEvent   = "sluice.failed"   // there is no decision
)

// Observer observes any number of limiters. It is safe for concurrent use.
type Observer struct {
	decisions metric.Int64Counter
	shadows   metric.Int64Counter
	duration  metric.Float64Histogram
}

// New creates the instruments. A nil provider means the global one. It returns the errors of the provider.
func New(provider metric.MeterProvider) (*Observer, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter("github.com/sluice-go/sluice/observe/otel")
	decisions, err1 := meter.Int64Counter("sluice.decisions",
		metric.WithUnit("{decision}"), metric.WithDescription("Decisions, by the rule that decided."))
	shadows, err2 := meter.Int64Counter("sluice.shadow_denials",
		metric.WithUnit("{denial}"), metric.WithDescription("Denials by shadow rules, which are not enforced."))
	duration, err3 := meter.Float64Histogram("sluice.decision.duration",
		metric.WithUnit("s"), metric.WithDescription("The time that decisions took."),
		metric.WithExplicitBucketBoundaries(1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return &Observer{decisions, shadows, duration}, nil
}

// Limiter returns the sluice.Options.Observer of a limiter with that name.
func (o *Observer) Limiter(name string) func(context.Context, sluice.Event) {
	limiter := text("sluice.limiter", name)
	return func(ctx context.Context, e sluice.Event) {
		op, rule := attribute.String("sluice.op", string(e.Op)), text("sluice.rule", e.Decision.Rule)
		outcome := attribute.String("sluice.outcome", string(e.Outcome))
		o.decisions.Add(ctx, 1, metric.WithAttributes(limiter, op, rule, outcome))
		o.duration.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(limiter, op))
		for i := range e.Decision.Results {
			if r := &e.Decision.Results[i]; r.Shadow && !r.Allowed && r.Err == nil {
				o.shadows.Add(ctx, 1, metric.WithAttributes(limiter, op, text("sluice.rule", r.Rule)))
			}
		}
		addEvent(trace.SpanFromContext(ctx), &e, limiter, op, rule)
	}
}

func addEvent(span trace.Span, e *sluice.Event, attributes ...attribute.KeyValue) {
	names := map[sluice.Outcome]string{sluice.Denied: DeniedEvent, sluice.Degraded: DegradedEvent, sluice.Failed: FailedEvent}
	name := names[e.Outcome]
	if name == "" || !span.IsRecording() {
		return
	}
	if e.Outcome == sluice.Denied {
		attributes = append(attributes, attribute.Float64("sluice.retry_after", e.Decision.RetryAfter.Seconds()), attribute.Int64("sluice.remaining", e.Decision.Remaining))
	}
	if e.Err != nil {
		attributes = append(attributes, text("exception.message", message(e.Err)))
	}
	span.AddEvent(name, trace.WithAttributes(attributes...))
}

// text returns an attribute of valid UTF-8, because an exporter refuses all its data if one text is not.
func text(name, value string) attribute.KeyValue {
	return attribute.String(name, strings.ToValidUTF8(value, "\uFFFD"))
}

// message returns the text of an error without the key of a RuleError. Its Err can have one too, if PolicyFor asks another limiter.
func message(err error) string {
	var rule *sluice.RuleError
	if errors.As(err, &rule) {
		return fmt.Sprintf("sluice: rule %q: %s", rule.Rule, message(rule.Err))
	}
	return err.Error()
}
