// Package observe shows what limiters do. [Metrics] counts decisions for Prometheus, and
// [Denied] lists the keys that are denied most. Both are observers of a [sluice.Limiter]:
//
//	metrics, err := observe.NewMetrics(registry)
//	denied := observe.NewDenied(100)
//	limiter, err := sluice.Options[*http.Request]{
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
// [Metrics] has:
//
//	sluice_decisions_total            counter    limiter, op, rule, outcome
//	sluice_shadow_denials_total       counter    limiter, op, rule, outcome
//	sluice_cached_denials_total       counter    limiter, op, rule
//	sluice_decision_duration_seconds  histogram  limiter, op
//	sluice_retries_total              counter    limiter, op
//	sluice_errors_total               counter    limiter, op, kind
//	sluice_skew_seconds               histogram  limiter
//
// [NewMemoryCollector] has:
//
//	sluice_memory_store_keys               gauge    store
//	sluice_memory_store_keys_limit         gauge    store
//	sluice_memory_store_evictions_total    counter  store
//	sluice_memory_store_expirations_total  counter  store
//
// sluice_decisions_total counts each decision once, whatever its cost and the number of its rules.
// Its label rule names the rule that decided: for an allowed decision the rule with the least
// remaining, for a denied decision the rule with the longest wait. The label is empty if the
// decision failed or no rule applied.
//
// sluice_shadow_denials_total counts the denials of shadow rules (sluice.Rule.Shadow) by the
// outcome of the decision. With the outcome allowed, the call would be denied if the rule were
// enforced. With the outcome denied, another rule denied it anyway.
//
// sluice_cached_denials_total counts denials from the denial cache
// (sluice.Options.DenialCacheTTL), which take no round trip to the store. sluice_decisions_total
// counts them too.
//
// sluice_decision_duration_seconds is the time within the limiter, in buckets from 1 µs to 5 s.
// sluice_retries_total counts the retries within decisions, after conflicts and lost replies.
//
// sluice_errors_total counts the errors of decisions that failed, of decisions with the outcome
// degraded, and of shadow rules. It also counts clock skew.
//
// sluice_skew_seconds has one observation for each decision in which a stored state was ahead
// of the clock, in buckets from 1 ms to an hour. It shows that the clock of some process is wrong, or
// that the clock of the store has stepped back.
//
// sluice_memory_store_keys_limit is the maximum number of records of one rule, and
// sluice_memory_store_keys is the number of records of all rules.
// sluice_memory_store_evictions_total counts records that were evicted before they had expired. The
// key of such a record has its full limit again. If the number keeps growing, memory.Store.MaxKeys
// is too small. sluice_memory_store_expirations_total counts expired records that were deleted.
//
// # The labels
//
//	limiter  the argument of Metrics.Observer
//	op       allow (also for Reserve), peek, refund, charge, reset; a Wait counts one allow
//	         for each of its decisions
//	rule     Rule.Name
//	outcome  allowed, denied, failed, or degraded: the store failed, and FailOpen or
//	         FailLocal decided
//	kind     outcome_unknown, overloaded, contended, unavailable, program: see package storage;
//	         cost, state: see package algo; skew: sluice.ErrSkew;
//	         context: the caller's context ended; other
//	store    the argument of NewMemoryCollector
//
// No label contains a key, or anything else that a client sends, so the number of series is
// bounded. The first decision of an op creates its series of errors for each kind, with the value
// 0. The first decision to which a rule applies creates the rule's series of denials, with the
// value 0. So an alert also sees the first increment.
//
// # Queries
//
// The share of calls that are denied, by rule:
//
//	sum by (rule) (rate(sluice_decisions_total{op="allow",outcome="denied"}[5m]))
//	  / ignoring (rule) group_left sum(rate(sluice_decisions_total{op="allow"}[5m]))
//
// The additional calls per second that would be denied if a shadow rule were enforced:
//
//	sum by (rule) (rate(sluice_shadow_denials_total{op="allow",outcome="allowed"}[5m]))
//
// An alert that the store fails, under every failure policy:
//
//	sum by (kind) (rate(sluice_errors_total{kind=~"unavailable|overloaded|contended|outcome_unknown"}[5m])) > 0
//
// The 99th percentile of the time of decisions:
//
//	histogram_quantile(0.99, sum by (le) (rate(sluice_decision_duration_seconds_bucket{op="allow"}[5m])))
//
// # Performance
//
// No observer of this package allocates memory for a decision. [Metrics] takes about 70 ns
// for each decision, and [Denied] takes 30 to 160 ns for each denial. With any observer, even an
// empty one, the limiter itself reads a clock twice, and allocates memory for the results of the
// rules. This makes a decision with a memory store slower by about 250 ns. Run the benchmarks of
// this package for the numbers of your machine.
package observe
