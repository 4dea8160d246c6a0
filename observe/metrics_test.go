// These tests promise what each metric counts, under which labels, and that the package
// comment lists all of them.
package observe

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/sluicetest"
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
	_, err = rules.Charge(ctx, "ann", 1)
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
		l := newLimiter(t, sluice.Options[string]{OnFailure: policy, Observer: m.Observer(name)}, down(), sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"})
		_, err := l.Allow(ctx, "ann")
		require.Equal(t, policy == sluice.FailClosed, err != nil)
	}

	expensive := denialOf(denied("client", "ann"))
	expensive.Decision.Attempts, expensive.Decision.Cached, expensive.Decision.Skew, expensive.Duration = 4, true, 50*time.Millisecond, 3*time.Microsecond
	m.Observer("expensive")(context.Background(), expensive)
	prepaid := denialOf(allowed("client", "ann"))
	prepaid.Outcome, prepaid.Decision.Allowed, prepaid.Decision.Prepaid, prepaid.Decision.Attempts = sluice.Allowed, true, true, 4
	m.Observer("prepaid")(context.Background(), prepaid)
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
	require.PanicsWithValue(t, "observe: NewMemoryCollector: the store must not be nil", func() { NewMemoryCollector("a", nil) })
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

// still is a clock that stands still.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func byItself(key string) string { return key }

func newRegistered(t testing.TB) (*Metrics, *prometheus.Registry) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	require.NoError(t, err)
	return m, registry
}

// scrape returns the text that Prometheus reads.
func scrape(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	promhttp.HandlerFor(registry, options).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// down returns a store that always returns an error.
func down() storage.Store {
	store := new(sluicetest.Store)
	store.Fail(errors.New("the database is on fire"))
	return store
}

func denialOf(results ...sluice.RuleResult) sluice.Event {
	d := sluice.Decision{Rule: results[0].Rule, Results: results, Attempts: 1}
	return sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied, Decision: d, Duration: time.Millisecond}
}

func denied(rule, key string) sluice.RuleResult { return sluice.RuleResult{Rule: rule, Key: key} }

func allowed(rule, key string) sluice.RuleResult {
	return sluice.RuleResult{Rule: rule, Key: key, Result: algo.Result{Allowed: true}}
}

func shadow(r sluice.RuleResult) sluice.RuleResult {
	r.Shadow = true
	return r
}

// These tests promise that observers do not allocate.

// fullEvent changes every metric except that of errors.
func fullEvent() sluice.Event {
	e := denialOf(denied("client", "203.0.113.7"), denied("everyone", ""), shadow(denied("new", "203.0.113.7")))
	e.Decision.Attempts, e.Decision.Cached, e.Decision.Skew = 3, true, time.Second
	return e
}

func TestObserversDoNotAllocate(t *testing.T) {
	m, _ := newRegistered(t)
	failure := sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Failed, Err: fmt.Errorf("down: %w", context.DeadlineExceeded)}
	for name, observer := range map[string]func(context.Context, sluice.Event){
		"metrics": m.Observer("http"),
		"denied":  NewDenied(10).Observe,
		"each":    Each(m.Observer("http"), NewDenied(10).Observe),
	} {
		for _, e := range []sluice.Event{fullEvent(), failure} {
			require.Zero(t, testing.AllocsPerRun(100, func() { observer(context.Background(), e) }), name)
		}
	}
}

// A flood of new keys is the most work. When all counters are in use, it allocates nothing
// either.
func TestFloodOfKeysDoesNotAllocate(t *testing.T) {
	d, next, keys := NewDenied(10), 0, make([]string, 10_000)
	for i := range keys {
		keys[i] = "198.51.100." + strconv.Itoa(i)
	}
	flood := func() {
		d.add("client", keys[next%len(keys)])
		next++
	}
	for range 5000 {
		flood()
	}
	require.Zero(t, testing.AllocsPerRun(2000, flood))
}

// A limiter without an observer reads no clock and decides in place.
func BenchmarkLimiter(b *testing.B) {
	m, _ := newRegistered(b)
	for name, observer := range map[string]func(context.Context, sluice.Event){
		"no observer": nil, "empty observer": func(context.Context, sluice.Event) {}, "metrics": m.Observer("http"), "denied": NewDenied(0).Observe,
	} {
		for outcome, spec := range map[string]string{"allowed": "gcra 1000000000/s", "denied": "gcra 1/24h"} {
			b.Run(name+"/"+outcome, func(b *testing.B) {
				l, err := sluice.Options[string]{Observer: observer}.New(nil, sluice.Rule[string]{Name: "client", Key: byItself, Spec: spec})
				require.NoError(b, err)
				for b.Loop() {
					if _, err := l.Allow(ctx, "203.0.113.7"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkObservers(b *testing.B) {
	m, _ := newRegistered(b)
	flood := make([]sluice.Event, 1<<20)
	for i := range flood {
		flood[i] = denialOf(denied("client", "198.51.100."+strconv.Itoa(i)))
	}
	for name, test := range map[string]struct {
		observer func(context.Context, sluice.Event)
		events   []sluice.Event
	}{
		"metrics":             {m.Observer("http"), flood[:1]},
		"metrics, full event": {m.Observer("http"), []sluice.Event{fullEvent()}},
		"denied, one key":     {NewDenied(0).Observe, flood[:1]},
		"denied, few keys":    {NewDenied(0).Observe, flood[:64]},
		"denied, flood":       {NewDenied(0).Observe, flood},
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				test.observer(context.Background(), test.events[i%len(test.events)])
			}
		})
	}
}
