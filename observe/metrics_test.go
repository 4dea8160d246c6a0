// These tests promise what each metric counts, under which labels, and that the package
// comment lists all of them.
package observe

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestDecisionsAreCountedByTheDecidingRule(t *testing.T) {
	m, registry := newRegistered(t)
	l, err := sluice.Options[string]{Clock: still, Observer: m.Observer("http")}.New(nil,
		sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"},
		sluice.Rule[string]{Name: "everyone", Spec: "gcra 3/m"},
	)
	require.NoError(t, err)
	ctx := context.Background()
	for _, client := range []string{"ann", "ann", "ann", "bob", "bob"} { // ann is denied by client, bob by everyone
		_, err := l.Allow(ctx, client)
		require.NoError(t, err)
	}
	_, err = l.Peek(ctx, "ann")
	require.NoError(t, err)
	_, err = l.AllowN(ctx, "ann", 0)
	require.ErrorIs(t, err, algo.ErrCost)
	requireSeries(t, registry, "sluice_decisions_total",
		`{limiter="http",op="allow",outcome="allowed",rule="client"} 2`,
		`{limiter="http",op="allow",outcome="allowed",rule="everyone"} 1`,
		`{limiter="http",op="allow",outcome="denied",rule="client"} 1`,
		`{limiter="http",op="allow",outcome="denied",rule="everyone"} 1`,
		`{limiter="http",op="allow",outcome="failed",rule=""} 1`,
		`{limiter="http",op="peek",outcome="denied",rule="client"} 1`,
	)
	requireSeries(t, registry, "sluice_errors_total", `{kind="cost",limiter="http",op="allow"} 1`)
	requireSeries(t, registry, "sluice_decision_duration_seconds_count",
		`{limiter="http",op="allow"} 6`,
		`{limiter="http",op="peek"} 1`,
	)
	requireSeries(t, registry, "sluice_shadow_denials_total")
	requireSeries(t, registry, "sluice_cached_denials_total")
	requireSeries(t, registry, "sluice_retries_total")
}

func TestShadowDenialsAreCountedByOutcome(t *testing.T) {
	m, registry := newRegistered(t)
	l, err := sluice.Options[string]{Clock: still, Observer: m.Observer("http")}.New(nil,
		sluice.Rule[string]{Name: "old", Spec: "gcra 3/m"},
		sluice.Rule[string]{Name: "new", Spec: "gcra 1/m", Shadow: true},
	)
	require.NoError(t, err)
	for range 4 {
		_, err := l.Allow(context.Background(), "")
		require.NoError(t, err)
	}
	requireSeries(t, registry, "sluice_decisions_total",
		`{limiter="http",op="allow",outcome="allowed",rule="old"} 3`,
		`{limiter="http",op="allow",outcome="denied",rule="old"} 1`,
	)
	requireSeries(t, registry, "sluice_shadow_denials_total",
		`{limiter="http",op="allow",outcome="allowed",rule="new"} 2`,
		`{limiter="http",op="allow",outcome="denied",rule="new"} 1`,
	)
}

func TestErrorsOfShadowRulesAreCounted(t *testing.T) {
	m, registry := newRegistered(t)
	store := new(memory.Store)
	l, err := sluice.Options[string]{Clock: still, Observer: m.Observer("http")}.New(store,
		sluice.Rule[string]{Name: "new", Spec: "gcra 1/m", Shadow: true})
	require.NoError(t, err)
	key := driver.RuleKey{Rule: driver.Rule("", "new", "gcra")}.String()
	damaged := storage.Record{Version: storage.NewVersion(), State: []byte("no state")}
	_, _, err = store.CompareAndSwap(context.Background(), storage.Swap{Key: key, New: damaged})
	require.NoError(t, err)
	_, err = l.Allow(context.Background(), "")
	require.NoError(t, err)
	_, err = l.Charge(context.Background(), "", 1)
	require.NoError(t, err)
	requireSeries(t, registry, "sluice_shadow_denials_total")
	requireSeries(t, registry, "sluice_errors_total",
		`{kind="state",limiter="http",op="allow"} 1`, `{kind="state",limiter="http",op="charge"} 1`)
}

func TestStoreErrorsAreCountedUnderEachFailurePolicy(t *testing.T) {
	for _, test := range []struct {
		policy  sluice.FailurePolicy
		outcome string
		bound   string
	}{
		{sluice.FailClosed, "failed", ""},
		{sluice.FailOpen, "degraded", ""},
		{sluice.FailLocal, "degraded", "client"},
	} {
		m, registry := newRegistered(t)
		l, err := sluice.Options[string]{OnFailure: test.policy, Observer: m.Observer("http")}.New(down{errFire},
			sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"})
		require.NoError(t, err)
		_, err = l.Allow(context.Background(), "ann")
		require.Equal(t, test.policy == sluice.FailClosed, err != nil)
		requireSeries(t, registry, "sluice_decisions_total",
			fmt.Sprintf(`{limiter="http",op="allow",outcome=%q,rule=%q} 1`, test.outcome, test.bound))
		requireSeries(t, registry, "sluice_errors_total", `{kind="other",limiter="http",op="allow"} 1`)
	}
}

func TestErrorsAreCountedByKind(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind string
	}{
		{storage.ErrOutcomeUnknown, "outcome_unknown"},
		{fmt.Errorf("%w: key", storage.ErrProgram), "program"},
		{storage.ErrOverloaded, "overloaded"},
		{storage.ErrContended, "contended"},
		{storage.ErrUnavailable, "unavailable"},
		{fmt.Errorf("%w: %w", storage.ErrUnavailable, context.DeadlineExceeded), "unavailable"},
		{fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, context.Canceled), "outcome_unknown"},
		{fmt.Errorf("sluice: rule %q: %w", "a", algo.ErrCost), "cost"},
		{algo.ErrState, "state"},
		{algo.ErrStateVersion, "state"},
		{fmt.Errorf("%w by 3s", sluice.ErrSkew), "skew"},
		{context.Canceled, "context"},
		{context.DeadlineExceeded, "context"},
		{storage.ErrKey, "other"},
		{errFire, "other"},
	} {
		m, registry := newRegistered(t)
		m.Observer("http")(sluice.Event{Op: sluice.OpCharge, Outcome: sluice.Failed, Err: test.err})
		requireSeries(t, registry, "sluice_errors_total", fmt.Sprintf(`{kind=%q,limiter="http",op="charge"} 1`, test.kind))
	}
}

func TestCostsOfADecisionAreCounted(t *testing.T) {
	m, registry := newRegistered(t)
	e := denialOf(denied("client", "ann"))
	e.Decision.Attempts, e.Decision.Cached, e.Decision.Skew, e.Duration = 4, true, 50*time.Millisecond, 3*time.Microsecond
	m.Observer("http")(e)
	requireSeries(t, registry, "sluice_retries_total", `{limiter="http",op="allow"} 3`)
	requireSeries(t, registry, "sluice_cached_denials_total", `{limiter="http",op="allow",rule="client"} 1`)
	requireSeries(t, registry, "sluice_skew_seconds_sum", `{limiter="http"} 0.05`)
	text := scrape(t, registry)
	require.Contains(t, text, `sluice_decision_duration_seconds_bucket{limiter="http",op="allow",le="2.5e-06"} 0`+"\n")
	require.Contains(t, text, `sluice_decision_duration_seconds_bucket{limiter="http",op="allow",le="5e-06"} 1`+"\n")
	require.Contains(t, text, `sluice_decision_duration_seconds_sum{limiter="http",op="allow"} 3e-06`+"\n")
}

// Prometheus sees no increase in a series that starts with its first increment.
func TestSeriesStartAtZero(t *testing.T) {
	m, registry := newRegistered(t)
	e := denialOf(allowed("client", "ann"), allowed("everyone", ""), shadow(allowed("new", "ann")))
	e.Outcome, e.Decision.Allowed = sluice.Allowed, true
	m.Observer("http")(e)
	text := scrape(t, registry)
	for _, series := range []string{
		`sluice_decisions_total{limiter="http",op="allow",outcome="denied",rule="client"}`,
		`sluice_decisions_total{limiter="http",op="allow",outcome="denied",rule="everyone"}`,
		`sluice_shadow_denials_total{limiter="http",op="allow",outcome="allowed",rule="new"}`,
		`sluice_cached_denials_total{limiter="http",op="allow",rule="client"}`,
		`sluice_retries_total{limiter="http",op="allow"}`,
		`sluice_errors_total{kind="unavailable",limiter="http",op="allow"}`,
	} {
		require.Contains(t, text, series+" 0\n")
	}
}

func TestLabelsHaveNoKeys(t *testing.T) {
	m, registry := newRegistered(t)
	observer := m.Observer("http")
	series := func() int {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		return n
	}
	observer(denialOf(denied("client", "first"), shadow(denied("new", "first"))))
	before := series()
	for i := range 1000 {
		key := fmt.Sprint("secret-", i)
		observer(denialOf(denied("client", key), shadow(denied("new", key))))
	}
	require.Equal(t, before, series())
	require.NotContains(t, scrape(t, registry), "secret")
}

// Prometheus panics at label values that are not UTF-8.
func TestInvalidUTF8InNamesIsReplaced(t *testing.T) {
	m, registry := newRegistered(t)
	m.Observer("\xff")(denialOf(denied("a\xff", "k"), shadow(denied("b\xff", "k"))))
	registry.MustRegister(NewMemoryCollector("c\xff", new(memory.Store)))
	requireSeries(t, registry, "sluice_decisions_total", "{limiter=\"\uFFFD\",op=\"allow\",outcome=\"denied\",rule=\"a\uFFFD\"} 1")
}

func TestObserversOfOneNameShareTheirCounters(t *testing.T) {
	m, registry := newRegistered(t)
	m.Observer("http")(denialOf(denied("client", "ann")))
	m.Observer("http")(denialOf(denied("client", "ann")))
	m.Observer("api")(denialOf(denied("client", "ann")))
	requireSeries(t, registry, "sluice_decisions_total",
		`{limiter="http",op="allow",outcome="denied",rule="client"} 2`,
		`{limiter="api",op="allow",outcome="denied",rule="client"} 1`,
	)
}

func TestAllMetricsAreRegisteredOrNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, _ := newRegistered(t)
	taken := m.skews
	registry.MustRegister(taken)
	_, err := NewMetrics(registry)
	require.ErrorContains(t, err, "observe: cannot register the metrics: ")
	registry.Unregister(taken)
	_, err = NewMetrics(registry)
	require.NoError(t, err)
	_, err = NewMetrics(registry)
	require.ErrorAs(t, err, &prometheus.AlreadyRegisteredError{})
	require.ErrorContains(t, err, "observe: these metrics are already registered; share the Metrics")
	_, err = NewMetrics(nil)
	require.EqualError(t, err, "observe: NewMetrics needs a registerer, such as prometheus.NewRegistry(), got nil")
}

func TestMemoryCollectorReadsTheStore(t *testing.T) {
	now := still()
	small, unused := &memory.Store{MaxKeys: 2, Clock: func() time.Time { return now }}, new(memory.Store)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewMemoryCollector("small", small), NewMemoryCollector("unused", unused))
	l, err := sluice.Options[string]{Clock: still}.New(small, sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"})
	require.NoError(t, err)
	for _, key := range []string{"a", "b", "c"} {
		_, err := l.Allow(context.Background(), key)
		require.NoError(t, err)
	}
	now = now.Add(time.Hour)
	_, err = small.Purge(context.Background(), 1)
	require.NoError(t, err)
	requireSeries(t, registry, "sluice_memory_store_keys", `{store="small"} 1`)
	requireSeries(t, registry, "sluice_memory_store_keys_limit", `{store="small"} 2`, `{store="unused"} 1.048576e+06`)
	requireSeries(t, registry, "sluice_memory_store_evictions_total", `{store="small"} 1`)
	requireSeries(t, registry, "sluice_memory_store_expirations_total", `{store="small"} 1`)
}

// registryWithAllSeries returns a registry in which every metric has a series.
func registryWithAllSeries(t *testing.T) *prometheus.Registry {
	m, registry := newRegistered(t)
	e := denialOf(denied("client", "ann"), shadow(denied("new", "ann")))
	e.Decision.Skew = time.Second
	m.Observer("http")(e)
	registry.MustRegister(NewMemoryCollector("default", new(memory.Store)))
	return registry
}

func TestMetricsFollowTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(registryWithAllSeries(t))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestPackageCommentListsTheMetrics(t *testing.T) {
	comment := packageComment(t)
	families, err := registryWithAllSeries(t).Gather()
	require.NoError(t, err)
	var want []string
	for _, family := range families {
		var labels []string
		for _, label := range family.Metric[0].Label {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		want = append(want, fmt.Sprintln(family.GetName(), strings.ToLower(family.GetType().String()), labels))
	}
	require.ElementsMatch(t, want, listed(comment))
}

func TestPackageCommentListsTheErrorKinds(t *testing.T) {
	comment := packageComment(t)
	_, list, found := strings.Cut(comment, "\tkind ")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\tstore ")
	for _, k := range errorKinds {
		require.Regexp(t, `\b`+k.name+`\b`, list)
	}
}

func packageComment(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

// listed returns the metrics in the preformatted lines of a comment.
func listed(comment string) (metrics []string) {
	for line := range strings.Lines(comment) {
		fields := strings.Fields(strings.ReplaceAll(line, ",", ""))
		if len(fields) > 2 && strings.HasPrefix(line, "\tsluice_") {
			slices.Sort(fields[2:])
			metrics = append(metrics, fmt.Sprintln(fields[0], fields[1], fields[2:]))
		}
	}
	return metrics
}
