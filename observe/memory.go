package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/storage/memory"
)

// NewMemoryCollector collects what a store in memory holds, and what it had to drop.
// It counts when it is asked to, and costs decisions nothing. The name is the label
// store.
func NewMemoryCollector(name string, store *memory.Store) prometheus.Collector {
	if store == nil {
		panic("observe: NewMemoryCollector: the store must not be nil")
	}
	describe := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_memory_store_"+metric, help, nil, prometheus.Labels{"store": label(name)})
	}
	return &memoryCollector{
		store:     store,
		keys:      describe("keys", "Records held, those included that have lapsed and were not dropped yet."),
		limit:     describe("keys_limit", "How many records of one rule are held at most."),
		evictions: describe("evictions_total", "Records dropped to make room while they still meant something: what was used is forgotten."),
		lapses:    describe("lapses_total", "Records dropped after they had lapsed."),
	}
}

type memoryCollector struct {
	store                          *memory.Store
	keys, limit, evictions, lapses *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *memoryCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.keys
	descriptions <- c.limit
	descriptions <- c.evictions
	descriptions <- c.lapses
}

// Collect implements prometheus.Collector.
func (c *memoryCollector) Collect(metrics chan<- prometheus.Metric) {
	limit := c.store.MaxKeys
	if limit <= 0 {
		limit = memory.DefaultMaxKeys
	}
	stats := c.store.Stats()
	metrics <- prometheus.MustNewConstMetric(c.keys, prometheus.GaugeValue, float64(stats.Keys))
	metrics <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(limit))
	metrics <- prometheus.MustNewConstMetric(c.evictions, prometheus.CounterValue, float64(stats.Evicted))
	metrics <- prometheus.MustNewConstMetric(c.lapses, prometheus.CounterValue, float64(stats.Lapsed))
}
