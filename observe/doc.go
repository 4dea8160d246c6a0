// Package observe shows what limiters do: [Metrics] counts for Prometheus, and
// [Denied] lists the keys that are denied most.
//
//	metrics, err := observe.NewMetrics(prometheus.DefaultRegisterer)
//	denied := observe.NewDenied(100)
//	limiter, err := compose.Options[*http.Request]{
//		Observer: observe.Each(metrics.Observer("http"), denied.Observe),
//	}.New(store, rules...)
//	admin.Handle("/metrics", promhttp.Handler())
//	admin.Handle("/debug/denied", denied)
//
// # Metrics
//
// Of [Metrics]:
//
//	sluice_decisions_total            counter    limiter, op, rule, outcome
//	sluice_shadow_denials_total       counter    limiter, op, rule, outcome
//	sluice_remembered_denials_total   counter    limiter, op, rule
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
package observe
