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

// encoded returns attributes as text. Their texts must be valid UTF-8, because an exporter by protocol buffers refuses all its data if
// one is not. The encoder itself would replace other bytes.
func encoded(t *testing.T, set attribute.Set) string {
	for _, a := range set.ToSlice() {
		require.True(t, utf8.ValidString(a.Value.Emit()), a)
	}
	return set.Encoded(attribute.DefaultEncoder())
}

func counts(t *testing.T, reader *sdkmetric.ManualReader) map[string]string {
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	found := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+encoded(t, p.Attributes)] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+encoded(t, p.Attributes)] = fmt.Sprint(p.Count)
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
	observer.Limiter("rule")(ctx, sluice.Event{Outcome: sluice.Failed, Err: &sluice.RuleError{Rule: "plan", Err: &sluice.RuleError{Rule: "user", Key: "secret", Err: errors.New("damaged")}}})
	span.End()

	ctx, span = tracer.Start(t.Context(), "text")
	observer.Limiter("\xff")(ctx, sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied, Err: errors.New("bad \xff"), Decision: sluice.Decision{Rule: "a\xff", Results: []sluice.RuleResult{
		{Rule: "b\xff", Shadow: true},
		{Rule: "damaged", Shadow: true, Err: errors.New("damaged")}, // it has decided nothing
	}}})
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
		"sluice.decisions sluice.limiter=\uFFFD,sluice.op=allow,sluice.outcome=denied,sluice.rule=a\uFFFD":       "1",
		"sluice.shadow_denials sluice.limiter=\uFFFD,sluice.op=allow,sluice.rule=b\uFFFD":                        "1",
		"sluice.decision.duration sluice.limiter=\uFFFD,sluice.op=allow":                                         "1",
	}, counts(t, reader))

	events := map[string]string{}
	for _, span := range spans.Ended() {
		for _, e := range span.Events() {
			events[span.Name()] += e.Name + " " + encoded(t, attribute.NewSet(e.Attributes...))
		}
	}
	require.Equal(t, map[string]string{
		"rule":    `sluice.failed exception.message=sluice: rule "plan": sluice: rule "user": damaged,sluice.limiter=rule,sluice.op=,sluice.rule=`,
		"request": "sluice.denied sluice.limiter=api,sluice.op=allow,sluice.remaining=0,sluice.retry_after=3600,sluice.rule=fixedwindow 2/h",
		"open":    "sluice.degraded exception.message=storage: nothing was applied: sluicetest: fire,sluice.limiter=open,sluice.op=allow,sluice.rule=",
		"text":    "sluice.denied exception.message=bad \uFFFD,sluice.limiter=\uFFFD,sluice.op=allow,sluice.remaining=0,sluice.retry_after=0,sluice.rule=a\uFFFD",
		"closed":  "sluice.failed exception.message=storage: nothing was applied: sluicetest: fire,sluice.limiter=closed,sluice.op=allow,sluice.rule=",
	}, events)
}

func TestNewUsesTheGlobalProvider(t *testing.T) {
	observer, err := otel.New(nil)
	require.NoError(t, err)
	observer.Limiter("api")(t.Context(), sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied})
}
