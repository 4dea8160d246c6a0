package memstore

// Stats says what a store holds and what it had to drop.
type Stats struct {
	Keys    int   // records held, lapsed ones included
	Evicted int64 // records dropped to make room before they had lapsed, since the beginning
	Lapsed  int64 // records dropped after they had lapsed, since the beginning
}

// Stats counts over all rules. While others write, the numbers are of slightly different
// instants.
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
	stats.Keys += s.table.entries.held
	stats.Evicted += s.table.evicted
	stats.Lapsed += s.table.lapsed
}
