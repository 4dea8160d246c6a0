// These tests promise what each metric counts, under which labels, and that the package
// comment lists all of them.
package observe

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

var ctx = context.Background()

// newLimiter returns a limiter whose clock stands still.
func newLimiter(t testing.TB, o sluice.Options[string], store storage.Store, rules ...sluice.Rule[string]) *sluice.Limiter[string] {
	o.Clock = still
	l, err := o.New(store, rules...)
	require.NoError(t, err)
	return l
}

// traffic makes the decisions whose metrics are in testdata/metrics.txt. Each limiter shows another case.
func traffic(t *testing.T, m *Metrics) {
	rules := newLimiter(t, sluice.Options[string]{Observer: m.Observer("rules")}, nil,
		sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"}, sluice.Rule[string]{Name: "everyone", Spec: "gcra 3/m"})
	for _, client := range []string{"ann", "ann", "ann", "bob", "bob"} { // ann is denied by client, bob by everyone
		_, err := rules.Allow(ctx, client)
		require.NoError(t, err)
	}
	_, err := rules.Peek(ctx, "ann")
	require.NoError(t, err)
	_, err = rules.AllowN(ctx, "ann", 0)
	require.ErrorIs(t, err, algo.ErrCost)

	shadows := newLimiter(t, sluice.Options[string]{Observer: m.Observer("shadow")}, nil,
		sluice.Rule[string]{Name: "old", Spec: "gcra 3/m"}, sluice.Rule[string]{Name: "new", Spec: "gcra 1/m", Shadow: true})
	for range 4 {
		_, err := shadows.Allow(ctx, "")
		require.NoError(t, err)
	}

	store := new(memory.Store)
	damaged := storage.Swap{Key: driver.RuleKey{Rule: driver.Rule("", "new", "gcra")}.String(), New: storage.Record{Version: storage.NewVersion(), State: []byte("no state")}}
	_, _, err = store.CompareAndSwap(ctx, damaged)
	require.NoError(t, err)
	broken := newLimiter(t, sluice.Options[string]{Observer: m.Observer("broken shadow")}, store, sluice.Rule[string]{Name: "new", Spec: "gcra 1/m", Shadow: true})
	_, err = broken.Allow(ctx, "")
	require.NoError(t, err)
	_, err = broken.Charge(ctx, "", 1)
	require.NoError(t, err)

	for name, policy := range map[string]sluice.FailurePolicy{"closed": sluice.FailClosed, "open": sluice.FailOpen, "local": sluice.FailLocal} {
		l := newLimiter(t, sluice.Options[string]{OnFailure: policy, Observer: m.Observer(name)}, down{errFire}, sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"})
		_, err := l.Allow(ctx, "ann")
		require.Equal(t, policy == sluice.FailClosed, err != nil)
	}

	expensive := denialOf(denied("client", "ann"))
	expensive.Decision.Attempts, expensive.Decision.Cached, expensive.Decision.Skew, expensive.Duration = 4, true, 50*time.Millisecond, 3*time.Microsecond
	m.Observer("expensive")(context.Background(), expensive)
	for range 2 { // observers of one name share their counters
		m.Observer("\xff")(context.Background(), denialOf(denied("a\xff", "k"), shadow(denied("b\xff", "k")))) // Prometheus panics at labels that are not UTF-8
	}
	new := denialOf(allowed("client", "ann"), allowed("everyone", ""), shadow(allowed("new", "ann")))
	new.Outcome, new.Decision.Allowed = sluice.Allowed, true
	m.Observer("zero at first")(context.Background(), new)
}

func TestExposition(t *testing.T) {
	m, registry := newRegistered(t)
	traffic(t, m)
	now := still()
	small := &memory.Store{MaxKeys: 2, Clock: func() time.Time { return now }}
	registry.MustRegister(NewMemoryCollector("small", small), NewMemoryCollector("unused\xff", new(memory.Store)))
	l := newLimiter(t, sluice.Options[string]{}, small, sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"})
	for _, key := range []string{"a", "b", "c"} {
		_, err := l.Allow(ctx, key)
		require.NoError(t, err)
	}
	now = now.Add(time.Hour)
	_, err := small.Purge(ctx, 1)
	require.NoError(t, err)

	// The durations of real decisions differ, and only one limiter needs the kinds of errors that have not occurred.
	varying := regexp.MustCompile(`(?m)^sluice_decision_duration_seconds_(bucket|sum)\{limiter="[^e].*\n|^sluice_errors_total\{.*limiter="[^z].* 0\n|^sluice_skew_seconds_(bucket|sum|count)\{.* 0\n`)
	got := varying.ReplaceAllString(scrape(t, registry), "")
	tracetest.Golden(t, "testdata/metrics.txt", got)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	requireListed(t, registry)
}

// requireListed checks that the package comment lists the metrics and their labels.
func requireListed(t *testing.T, registry *prometheus.Registry) {
	families, err := registry.Gather()
	require.NoError(t, err)
	var want, listed []string
	for _, family := range families {
		var labels []string
		for _, label := range family.Metric[0].Label {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		want = append(want, fmt.Sprintln(family.GetName(), strings.ToLower(family.GetType().String()), labels))
	}
	for line := range strings.Lines(packageComment(t)) {
		fields := strings.Fields(strings.ReplaceAll(line, ",", ""))
		if len(fields) > 2 && strings.HasPrefix(line, "\tsluice_") {
			slices.Sort(fields[2:])
			listed = append(listed, fmt.Sprintln(fields[0], fields[1], fields[2:]))
		}
	}
	require.ElementsMatch(t, want, listed)
}

func packageComment(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

func TestErrorsAreCountedByKind(t *testing.T) {
	_, listed, _ := strings.Cut(packageComment(t), "\tkind ")
	for _, test := range []struct {
		kind string
		err  error
	}{
		{"outcome_unknown", fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, context.Canceled)},
		{"program", fmt.Errorf("%w: key", storage.ErrProgram)},
		{"overloaded", storage.ErrOverloaded},
		{"contended", storage.ErrContended},
		{"unavailable", fmt.Errorf("%w: %w", storage.ErrUnavailable, context.DeadlineExceeded)},
		{"cost", fmt.Errorf("sluice: rule %q: %w", "a", algo.ErrCost)},
		{"state", algo.ErrState},
		{"state", algo.ErrStateVersion},
		{"skew", fmt.Errorf("%w by 3s", sluice.ErrSkew)},
		{"context", context.Canceled},
		{"context", context.DeadlineExceeded},
		{"other", storage.ErrKey},
	} {
		m, registry := newRegistered(t)
		m.Observer("http")(context.Background(), sluice.Event{Op: sluice.OpCharge, Outcome: sluice.Failed, Err: test.err})
		require.Contains(t, scrape(t, registry), fmt.Sprintf(`sluice_errors_total{kind=%q,limiter="http",op="charge"} 1`, test.kind))
		require.Regexp(t, `\b`+test.kind+`\b`, listed)
	}
}

func TestLabelsHaveNoKeys(t *testing.T) {
	m, registry := newRegistered(t)
	series := func() int {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		return n
	}
	m.Observer("http")(context.Background(), denialOf(denied("client", "first"), shadow(denied("new", "first"))))
	before := series()
	for i := range 1000 {
		key := fmt.Sprint("secret-", i)
		m.Observer("http")(context.Background(), denialOf(denied("client", key), shadow(denied("new", key))))
	}
	require.Equal(t, before, series())
	require.NotContains(t, scrape(t, registry), "secret")
}

func TestAllMetricsAreRegisteredOrNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, _ := newRegistered(t)
	registry.MustRegister(m.skews)
	_, err := NewMetrics(registry)
	require.ErrorContains(t, err, "observe: cannot register the metrics: ")
	registry.Unregister(m.skews)
	_, err = NewMetrics(registry)
	require.NoError(t, err)
	_, err = NewMetrics(registry)
	require.ErrorAs(t, err, &prometheus.AlreadyRegisteredError{})
	require.ErrorContains(t, err, "observe: these metrics are already registered; share the Metrics")
	_, err = NewMetrics(nil)
	require.EqualError(t, err, "observe: NewMetrics needs a registerer, such as prometheus.NewRegistry(), got nil")
}

func TestEachCallsAllObserversInOrder(t *testing.T) {
	var calls []string
	observer := func(name string) func(context.Context, sluice.Event) {
		return func(_ context.Context, e sluice.Event) { calls = append(calls, name+" "+string(e.Op)) }
	}
	Each(observer("a"), nil, observer("b"))(context.Background(), sluice.Event{Op: sluice.OpPeek})
	require.Equal(t, []string{"a peek", "b peek"}, calls)
	require.Nil(t, Each(nil, nil), "a limiter with a nil observer does less work")
}
