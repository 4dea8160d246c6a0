// Package observe shows what limiters do. It is a module of its own. [Metrics] counts decisions for Prometheus, and [Denied]
// lists the keys that are denied most:
//
//	metrics, err := observe.NewMetrics(registry)
//	denied := observe.NewDenied(100)
//	limiter, err := sluice.Options[*http.Request]{
//		Observer: observe.Each(metrics.Observer("api"), denied.Observe),
//	}.New(store, rules...)
//	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//	admin.Handle("/debug/denied", denied)
//
// # Metrics
//
// [Metrics] has these metrics and labels:
//
//	sluice_decisions_total            counter    limiter, op, rule, outcome
//	sluice_shadow_denials_total       counter    limiter, op, rule, outcome
//	sluice_cached_denials_total       counter    limiter, op, rule
//	sluice_decision_duration_seconds  histogram  limiter, op
//	sluice_retries_total              counter    limiter, op
//	sluice_errors_total               counter    limiter, op, kind
//	sluice_skew_seconds               histogram  limiter
//
// sluice_decisions_total counts each decision once, also cached denials. rule is the rule with the least remaining, or after a
// denial with the longest wait. It is empty if the decision failed or no rule applied.
//
// sluice_shadow_denials_total counts the denials of shadow rules by the outcome of the decision. If that is allowed, only shadow
// rules denied the call.
//
// sluice_retries_total counts retries after conflicts and lost replies. sluice_errors_total counts the errors of decisions and
// shadow rules. sluice_skew_seconds observes how far a stored state was ahead of the clock.
//
// [NewMemoryCollector] reports the records, the maximum for one rule, and the records removed before and after they expired:
//
//	sluice_memory_store_keys               gauge    store
//	sluice_memory_store_keys_limit         gauge    store
//	sluice_memory_store_evictions_total    counter  store
//	sluice_memory_store_expirations_total  counter  store
//
// # Labels
//
//	limiter  the argument of Metrics.Observer
//	op       allow (also for Reserve, Renew and each decision of a Wait), peek, refund (also for Release), charge, reset
//	rule     Rule.Name
//	outcome  allowed, denied, failed, or degraded: the store failed, and FailOpen or
//	         FailLocal decided
//	kind     outcome_unknown, overloaded, contended, unavailable, program: see package storage;
//	         cost, state: see package algo; skew: sluice.ErrSkew;
//	         context: the caller's context ended; other
//	store    the argument of NewMemoryCollector
//
// No label contains anything that a client sends. The first decision of an op or a rule creates its series of errors or denials
// with the value 0, so an alert sees the first increment.
//
// # Queries
//
// The share of calls that are denied, by rule:
//
//	sum by (rule) (rate(sluice_decisions_total{op="allow",outcome="denied"}[5m]))
//	  / ignoring (rule) group_left sum(rate(sluice_decisions_total{op="allow"}[5m]))
//
// The calls per second that only shadow rules would deny:
//
//	sum by (rule) (rate(sluice_shadow_denials_total{op="allow",outcome="allowed"}[5m]))
//
// An alert that the store fails:
//
//	sum by (kind) (rate(sluice_errors_total{kind=~"unavailable|overloaded|contended|outcome_unknown"}[5m])) > 0
//
// # Performance
//
// [Metrics] takes about 70 ns for each decision, and [Denied] takes 30 to 160 ns for each denial. With any observer, a decision
// with a memory store is slower by about 250 ns.
package observe
