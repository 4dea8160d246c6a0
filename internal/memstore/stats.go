package memstore

// Stats is memory.Stats.
type Stats struct {
	Keys             int
	Evicted, Expired int64
}

// Stats returns the sums over all rules; see memory.Store.
func (s *Store) Stats() (stats Stats) {
	s.each(func(p *partition) bool {
		for i := range p.shards {
			p.shards[i].addTo(&stats)
		}
		return true
	})
	return stats
}

func (s *shard) addTo(stats *Stats) {
	s.mu.Lock()
	defer s.unlock()
	stats.Keys += s.table.entries.count
	stats.Evicted += s.table.evicted
	stats.Expired += s.table.expired
}
