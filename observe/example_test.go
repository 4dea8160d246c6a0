package observe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage/memory"
)

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
	check(err)
	store, denied := new(memory.Store), observe.NewDenied(100)
	registry.MustRegister(observe.NewMemoryCollector("memory", store))

	client := func(name string) string { return name }
	limiter, err := sluice.Options[string]{
		Observer: observe.Each(metrics.Observer("api"), denied.Observe),
	}.New(store,
		sluice.Rule[string]{Name: "client", Key: client, Spec: "gcra 2/h"},
		sluice.Rule[string]{Name: "stricter", Key: client, Spec: "gcra 1/h", Shadow: true},
	)
	check(err)
	admin := http.NewServeMux()
	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	admin.Handle("/debug/denied", denied)

	for _, client := range []string{"ann", "ann", "bob", "ann", "ann"} {
		_, err = limiter.Allow(context.Background(), client)
		check(err)
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
	limiter, err := sluice.Options[string]{Observer: denied.Observe}.New(nil, sluice.PerKey("gcra 1/h"))
	check(err)
	for _, client := range []string{"ann", "bob", "ann", "bob", "ann"} {
		_, err = limiter.Allow(context.Background(), client)
		check(err)
	}
	for _, k := range denied.Top() {
		fmt.Printf("%s by %s: from %d to %d denials\n", k.Key, k.Rule, k.Count-k.ErrorBound, k.Count)
	}
	// Output:
	// ann by gcra 1/h: from 2 to 2 denials
	// bob by gcra 1/h: from 1 to 1 denials
}

// denial is the event of a limiter that has denied ann.
var denial = sluice.Event{
	Op: sluice.OpAllow, Outcome: sluice.Denied,
	Decision: sluice.Decision{Rule: "client", Results: []sluice.RuleResult{{Rule: "client", Key: "ann"}}},
}

// A client that accepts JSON gets the list as JSON.
func ExampleDenied_ServeHTTP() {
	denied := observe.NewDenied(10)
	denied.Observe(context.Background(), denial)
	r := httptest.NewRequest("GET", "/debug/denied", nil)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	denied.ServeHTTP(w, r)
	var list struct{ Keys []observe.DeniedKey }
	if err := json.NewDecoder(w.Body).Decode(&list); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", list.Keys)
	// Output: [{Rule:client Key:ann Count:1 ErrorBound:0}]
}

func ExampleDenied_Reset() {
	denied := observe.NewDenied(10)
	denied.Observe(context.Background(), denial)
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
	log := func(_ context.Context, e sluice.Event) { fmt.Println(e.Op, e.Outcome, e.Decision.Rule) }
	limiter, err := sluice.Options[string]{Observer: observe.Each(denied.Observe, log)}.New(nil, sluice.PerKey("gcra 1/h"))
	check(err)
	for range 2 {
		_, err = limiter.Allow(context.Background(), "ann")
		check(err)
	}
	// Output:
	// allow allowed gcra 1/h
	// allow denied gcra 1/h
}

// Several limiters share the metrics. The label limiter has their names.
func ExampleMetrics_Observer() {
	registry := prometheus.NewRegistry()
	metrics, err := observe.NewMetrics(registry)
	check(err)
	for _, name := range []string{"api", "login"} {
		limiter, err := sluice.Options[string]{Observer: metrics.Observer(name)}.New(nil, sluice.PerKey("gcra 1/h"))
		check(err)
		_, err = limiter.Allow(context.Background(), "ann")
		check(err)
	}
	show(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics", "sluice_decision_duration_seconds_count")
	// Output:
	// sluice_decision_duration_seconds_count{limiter="api",op="allow"} 1
	// sluice_decision_duration_seconds_count{limiter="login",op="allow"} 1
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
