package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage/memory"
)

// still is a clock that stands still, so that the examples print the same every time.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func byItself(key string) string { return key }

// show prints the lines of a page that start with a prefix.
func show(h http.Handler, path, prefix string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			fmt.Print(line)
		}
	}
}

// A limiter with all observers, and the routes for a listener that only operators can
// reach.
func Example() {
	registry := prometheus.NewRegistry()
	metrics, err := observe.NewMetrics(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, denied := new(memory.Store), observe.NewDenied(100)
	registry.MustRegister(observe.NewMemoryCollector("memory", store))

	limiter, err := compose.Options[string]{
		Clock:    still,
		Observer: observe.Each(metrics.Observer("api"), denied.Observe),
	}.New(store,
		compose.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 2/m"},
		compose.Rule[string]{Name: "stricter", Key: byItself, Spec: "gcra 1/m", Shadow: true},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	admin := http.NewServeMux()
	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	admin.Handle("/debug/denied", denied)

	for _, client := range []string{"ann", "ann", "bob", "ann", "ann"} {
		if _, err := limiter.Allow(context.Background(), client); err != nil {
			fmt.Println(err)
		}
	}
	show(admin, "/metrics", "sluice_decisions_total")
	show(admin, "/metrics", "sluice_shadow_denials_total")
	show(admin, "/metrics", "sluice_memory_store_keys{")
	show(admin, "/debug/denied", " ")
	// Output:
	// sluice_decisions_total{limiter="api",op="allow",outcome="allowed",rule="client"} 3
	// sluice_decisions_total{limiter="api",op="allow",outcome="denied",rule="client"} 2
	// sluice_shadow_denials_total{limiter="api",op="allow",outcome="allowed",rule="stricter"} 1
	// sluice_shadow_denials_total{limiter="api",op="allow",outcome="denied",rule="stricter"} 2
	// sluice_memory_store_keys{store="memory"} 4
	//        count  error bound  rule and key
	//            2            0  "client" "ann"
}

func ExampleDenied_Top() {
	denied := observe.NewDenied(2)
	limiter, err := compose.Options[string]{Clock: still, Observer: denied.Observe}.New(nil,
		compose.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, client := range []string{"ann", "bob", "ann", "bob", "ann"} {
		if _, err := limiter.Allow(context.Background(), client); err != nil {
			fmt.Println(err)
		}
	}
	for _, k := range denied.Top() {
		fmt.Printf("%s %s: from %d to %d denials\n", k.Rule, k.Key, k.Count-k.ErrorBound, k.Count)
	}
	// Output:
	// client ann: from 2 to 2 denials
	// client bob: from 1 to 1 denials
}

func ExampleDenied_Reset() {
	denied := observe.NewDenied(10)
	denied.Observe(compose.Event{
		Op: compose.OpAllow, Outcome: compose.Denied,
		Decision: compose.Decision{Rule: "client", Results: []compose.RuleResult{{Rule: "client", Key: "ann"}}},
	})
	fmt.Println(len(denied.Top()))
	denied.Reset()
	fmt.Println(len(denied.Top()))
	// Output:
	// 1
	// 0
}

// An observer is a function, so a program can add its own.
func ExampleEach() {
	denied := observe.NewDenied(10)
	log := func(e compose.Event) { fmt.Println(e.Op, e.Outcome, e.Decision.Rule) }
	limiter, err := compose.Options[string]{Clock: still, Observer: observe.Each(denied.Observe, log)}.New(nil,
		compose.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if _, err := limiter.Allow(context.Background(), "ann"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// allow allowed client
	// allow denied client
}

// Several limiters share the metrics. The label limiter has their names.
func ExampleMetrics_Observer() {
	registry := prometheus.NewRegistry()
	metrics, err := observe.NewMetrics(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"api", "login"} {
		limiter, err := compose.Options[string]{Clock: still, Observer: metrics.Observer(name)}.New(nil,
			compose.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"})
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err := limiter.Allow(context.Background(), "ann"); err != nil {
			fmt.Println(err)
		}
	}
	show(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics", "sluice_decision_duration_seconds_count")
	// Output:
	// sluice_decision_duration_seconds_count{limiter="api",op="allow"} 1
	// sluice_decision_duration_seconds_count{limiter="login",op="allow"} 1
}
