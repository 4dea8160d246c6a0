package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/storage/memory"
)

// NewMemoryCollector returns a collector of the number of records that a memory store holds,
// has evicted and has deleted. name is the value of the label store. The collector reads
// the store when Prometheus scrapes, so decisions do not become slower. It panics if the
// store is nil.
func NewMemoryCollector(name string, store *memory.Store) prometheus.Collector {
	if store == nil {
		panic("observe: NewMemoryCollector: the store must not be nil")
	}
	describe := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_memory_store_"+metric, help, nil, prometheus.Labels{"store": label(name)})
	}
	return &memoryCollector{
		store:       store,
		keys:        describe("keys", "Records in the store, including expired records that are not deleted yet."),
		limit:       describe("keys_limit", "The maximum number of records per rule."),
		evictions:   describe("evictions_total", "Unexpired records that were evicted because the store was full. Their keys have a full limit again."),
		expirations: describe("expirations_total", "Expired records that were deleted."),
	}
}

type memoryCollector struct {
	store                               *memory.Store
	keys, limit, evictions, expirations *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *memoryCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{c.keys, c.limit, c.evictions, c.expirations} {
		descriptions <- description
	}
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
	metrics <- prometheus.MustNewConstMetric(c.expirations, prometheus.CounterValue, float64(stats.Expired))
}
