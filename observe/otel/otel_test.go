package otel_test

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/observe/otel"
	"github.com/sluice-go/sluice/sluicetest"
)

func counts(t *testing.T, reader *sdkmetric.ManualReader) map[string]string {
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	found := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = fmt.Sprint(p.Count)
				}
			}
		}
	}
	return found
}

func TestMetricsAndSpanEvents(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	observer, err := otel.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	noon := func() time.Time { return time.Unix(1_700_000_000, 0) }

	limiter, err := sluice.Options[string]{Observer: observer.Limiter("api"), Clock: noon}.New(nil,
		sluice.PerKey("fixedwindow 2/h"), sluice.Rule[string]{Name: "new", Spec: "fixedwindow 1/h", Shadow: true})
	require.NoError(t, err)
	ctx, span := tracer.Start(t.Context(), "request")
	for range 3 {
		_, err := limiter.Allow(ctx, "ann")
		require.NoError(t, err)
	}
	span.End()
	_, err = limiter.Allow(t.Context(), "ann") // without a span
	require.NoError(t, err)

	for policy, name := range map[sluice.FailurePolicy]string{sluice.FailOpen: "open", sluice.FailClosed: "closed"} {
		store := new(sluicetest.Store)
		store.Fail(errors.New("fire"))
		broken, err := sluice.Options[string]{Observer: observer.Limiter(name), OnFailure: policy}.New(store, sluice.PerKey("gcra 1/s"))
		require.NoError(t, err)
		ctx, span := tracer.Start(t.Context(), name)
		_, err = broken.Allow(ctx, "ann")
		require.Equal(t, policy == sluice.FailClosed, err != nil)
		span.End()
	}

	ctx, span = tracer.Start(t.Context(), "rule")
	observer.Limiter("rule")(ctx, sluice.Event{Outcome: sluice.Failed, Err: &sluice.RuleError{Rule: "user", Key: "secret", Err: errors.New("damaged")}})
	span.End()

	require.Equal(t, map[string]string{
		"sluice.decisions sluice.limiter=rule,sluice.op=,sluice.outcome=failed,sluice.rule=":                     "1",
		"sluice.decision.duration sluice.limiter=rule,sluice.op=":                                                "1",
		"sluice.decisions sluice.limiter=api,sluice.op=allow,sluice.outcome=allowed,sluice.rule=fixedwindow 2/h": "2",
		"sluice.decisions sluice.limiter=api,sluice.op=allow,sluice.outcome=denied,sluice.rule=fixedwindow 2/h":  "2",
		"sluice.decisions sluice.limiter=open,sluice.op=allow,sluice.outcome=degraded,sluice.rule=":              "1",
		"sluice.decisions sluice.limiter=closed,sluice.op=allow,sluice.outcome=failed,sluice.rule=":              "1",
		"sluice.shadow_denials sluice.limiter=api,sluice.op=allow,sluice.rule=new":                               "3",
		"sluice.decision.duration sluice.limiter=api,sluice.op=allow":                                            "4",
		"sluice.decision.duration sluice.limiter=open,sluice.op=allow":                                           "1",
		"sluice.decision.duration sluice.limiter=closed,sluice.op=allow":                                         "1",
	}, counts(t, reader))

	events := map[string]string{}
	for _, span := range spans.Ended() {
		for _, e := range span.Events() {
			set := attribute.NewSet(e.Attributes...)
			events[span.Name()] += e.Name + " " + set.Encoded(attribute.DefaultEncoder())
		}
	}
	require.Equal(t, map[string]string{
		"rule":    `sluice.failed exception.message=sluice: rule "user": damaged,sluice.limiter=rule,sluice.op=,sluice.rule=`,
		"request": "sluice.denied sluice.limiter=api,sluice.op=allow,sluice.remaining=0,sluice.retry_after=3600,sluice.rule=fixedwindow 2/h",
		"open":    "sluice.degraded exception.message=storage: nothing was applied: sluicetest: fire,sluice.limiter=open,sluice.op=allow,sluice.rule=",
		"closed":  "sluice.failed exception.message=storage: nothing was applied: sluicetest: fire,sluice.limiter=closed,sluice.op=allow,sluice.rule=",
	}, events)
}

// Such a rule has decided nothing.
func TestErrorOfAShadowRuleIsNoDenial(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	observer, err := otel.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	results := []sluice.RuleResult{{Rule: "damaged", Shadow: true, Err: errors.New("damaged")}, {Rule: "full", Shadow: true}}
	observer.Limiter("api")(t.Context(), sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Allowed, Decision: sluice.Decision{Allowed: true, Results: results}})
	require.Equal(t, map[string]string{
		"sluice.decisions sluice.limiter=api,sluice.op=allow,sluice.outcome=allowed,sluice.rule=": "1",
		"sluice.decision.duration sluice.limiter=api,sluice.op=allow":                             "1",
		"sluice.shadow_denials sluice.limiter=api,sluice.op=allow,sluice.rule=full":               "1",
	}, counts(t, reader))
}

// An exporter by protocol buffers refuses all its data if one text is not valid UTF-8.
func TestTextsAreValidUTF8(t *testing.T) {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	observer, err := otel.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "request")
	observe := observer.Limiter("\xff")
	observe(ctx, sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Failed, Err: &sluice.RuleError{Rule: "user", Err: errors.New("bad \xff")}})
	observe(ctx, sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied, Decision: sluice.Decision{Rule: "a\xff", Results: []sluice.RuleResult{{Rule: "b\xff", Shadow: true}}}})
	span.End()
	found := counts(t, reader)
	require.Contains(t, found, "sluice.decisions sluice.limiter=\uFFFD,sluice.op=allow,sluice.outcome=denied,sluice.rule=a\uFFFD")
	require.Contains(t, found, "sluice.shadow_denials sluice.limiter=\uFFFD,sluice.op=allow,sluice.rule=b\uFFFD")
	for name := range found {
		require.True(t, utf8.ValidString(name), name)
	}
	require.Len(t, spans.Ended()[0].Events(), 2)
	for _, e := range spans.Ended()[0].Events() {
		for _, a := range e.Attributes {
			require.True(t, utf8.ValidString(a.Value.Emit()), a)
		}
	}
}

func TestNewUsesTheGlobalProvider(t *testing.T) {
	observer, err := otel.New(nil)
	require.NoError(t, err)
	observer.Limiter("api")(t.Context(), sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied})
}
