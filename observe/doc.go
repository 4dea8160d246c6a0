// Package observe shows what limiters do: [Metrics] counts it for Prometheus,
// and [Denied] lists the keys that are denied most. Both are observers of a
// [compose.Limiter]:
//
//	metrics, err := observe.NewMetrics(registry)
//	denied := observe.NewDenied(100)
//	limiter, err := compose.Options[*http.Request]{
//		Observer: observe.Each(metrics.Observer("api"), denied.Observe),
//	}.New(store, rules...)
//	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//	admin.Handle("/debug/denied", denied)
//
// This package is a module of its own, so that only programs that import it get the
// Prometheus client:
//
//	go get github.com/sluice-go/sluice/observe
//
// # The metrics
//
// Of [Metrics]:
//
//	sluice_decisions_total            counter    limiter, op, rule, outcome
//	sluice_shadow_denials_total       counter    limiter, op, rule, outcome
//	sluice_cached_denials_total       counter    limiter, op, rule
//	sluice_decision_duration_seconds  histogram  limiter, op
//	sluice_retries_total              counter    limiter, op
//	sluice_errors_total               counter    limiter, op, kind
//	sluice_skew_seconds               histogram  limiter
//
// Of [NewMemoryCollector]:
//
//	sluice_memory_store_keys             gauge    store
//	sluice_memory_store_keys_limit       gauge    store
//	sluice_memory_store_evictions_total  counter  store
//	sluice_memory_store_lapses_total     counter  store
//
// A decision counts once in sluice_decisions_total, whatever it cost and
// however many rules it went by: under the rule that bound, which is empty
// where the decision failed or no rule applied. Of an allowed decision that is
// the rule with the least remaining, of a denied one that with the longest
// wait.
//
// A shadow rule that would have denied counts in sluice_shadow_denials_total,
// by what became of the decision without it. With the outcome allowed it is a
// call that enforcing the rule would have turned away; with denied, one that
// was turned away all the same.
//
// A denial from the denial cache of a limiter counts in sluice_cached_denials_total
// besides: it took no round trip to the store.
//
// sluice_decision_duration_seconds is the time that a decision took within the
// limiter. Its buckets are from 1 µs to 5 s. sluice_retries_total is attempts
// beyond the first: after conflicts and lost replies.
//
// sluice_errors_total counts errors of decisions, both those that failed and
// those that were made all the same, being degraded or under skew; and of shadow
// rules, which can fail without the decision.
//
// sluice_skew_seconds has one observation for each decision by states that were
// ahead of the clock, from 1 ms to an hour: some process has a clock that is
// wrong.
//
// What a store in memory evicts had not lapsed: its key begins anew with a full
// limit. Evictions that go on mean that MaxKeys is too small.
//
// # The labels
//
//	limiter  as given to Metrics.Observer
//	op       allow, peek, refund, charge, reset; a Wait is as many allows as it took
//	rule     Rule.Name
//	outcome  allowed, denied, failed, or degraded: the store failed, and the failure
//	         policy allowed or denied
//	kind     outcome_unknown, overloaded, contended, unavailable, program: see package storage;
//	         cost, state: see package algo; skew: compose.ErrSkew;
//	         context: the caller's ended; other
//	store    as given to NewMemoryCollector
//
// No label is made of a key, or of anything else that a client sends. There are
// as many series as there are rules, times operations and outcomes. Those that
// an alert would wait for are there at 0 from the first decision that their rule
// has a part in.
//
// # Questions
//
// The share of calls that is denied, by rule:
//
//	sum by (rule) (rate(sluice_decisions_total{op="allow",outcome="denied"}[5m]))
//	  / ignoring (rule) group_left sum(rate(sluice_decisions_total{op="allow"}[5m]))
//
// The calls a second that enforcing a shadow rule would turn away beside:
//
//	sum by (rule) (rate(sluice_shadow_denials_total{op="allow",outcome="allowed"}[5m]))
//
// Is the store failing, whatever the failure policy makes of it?
//
//	sum by (kind) (rate(sluice_errors_total{kind=~"unavailable|overloaded|contended|outcome_unknown"}[5m])) > 0
//
// The 99th percentile of the time that decisions take:
//
//	histogram_quantile(0.99, sum by (le) (rate(sluice_decision_duration_seconds_bucket{op="allow"}[5m])))
//
// # What it costs
//
// Nothing is allocated for a decision. [Metrics] take some 70 ns for each, and
// [Denied] 30 to 130 ns for each denial. More is what the limiter does for any
// observer at all: it reads a clock twice, and allocates the results, because
// the observer may keep them; over a store in memory that is some 250 ns. One
// that nobody observes does neither. The benchmarks of this package tell the
// figures of a machine.
package observe
