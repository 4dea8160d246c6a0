package memstore

// makeRoom evicts records until the partition is within its bound again, after the record
// of a name was created. That record stays. The caller holds no lock of a shard.
func (p *partition) makeRoom(created hash, maxKeys, at int64) {
	if p.keys.Load() <= maxKeys {
		return
	}
	p.evicting.Lock()
	defer p.evicting.Unlock()
	for p.keys.Load() > maxKeys && p.evict(created, maxKeys, at) {
	}
}

// evict drops one record other than the one that was just created: a lapsed record if
// there is one, else one that is not protected, else the protected one that is worth
// least. If too many are protected, one of these goes before those that are not.
func (p *partition) evict(created hash, maxKeys, at int64) bool {
	if p.evictLapsed(at) {
		return true
	}
	if p.protected.Load() > maxProtected(maxKeys) {
		return p.evictProtected(created, at) || p.evictUnprotected(created, at)
	}
	return p.evictUnprotected(created, at) || p.evictProtected(created, at)
}

// evictLapsed drops a record that has lapsed.
func (p *partition) evictLapsed(at int64) bool {
	for i := range p.shards {
		if p.shards[i].mayHaveLapsed(at) && p.shards[i].dropLapsed(at, 1) > 0 {
			return true
		}
	}
	return false
}

// evictUnprotected drops a record that is not protected, from the shard of the new one if
// it has another. So a new record outlives as many new ones as there are unprotected
// records. If its shard has none, the shards take turns.
func (p *partition) evictUnprotected(created hash, at int64) bool {
	if p.shards[created.hi>>p.shift].evictUnprotected(created, at) {
		return true
	}
	for range p.shards {
		p.turn = (p.turn + 1) % len(p.shards)
		if p.shards[p.turn].evictUnprotected(created, at) {
			return true
		}
	}
	return false
}

func (s *shard) evictUnprotected(created hash, at int64) bool {
	s.mu.Lock()
	defer s.unlock()
	number := s.table.secondChance(created)
	if number == 0 {
		return false
	}
	s.table.drop(number, at)
	return true
}

// evictProtected drops the protected record that is worth least.
func (p *partition) evictProtected(created hash, at int64) bool {
	for {
		least, worth := (*shard)(nil), int64(none)
		for i := range p.shards {
			if w := p.shards[i].leastWorth(created); w < worth {
				least, worth = &p.shards[i], w
			}
		}
		if least == nil {
			return false
		}
		if least.evictWorth(worth, created, at) {
			return true
		}
	}
}

// leastWorth is what the shard's least protected record is worth; none if it has none.
func (s *shard) leastWorth(created hash) int64 {
	s.mu.Lock()
	defer s.unlock()
	_, worth := s.table.leastWorth(created)
	return worth
}

// evictWorth drops a protected record of at most that worth, if there still is one.
func (s *shard) evictWorth(most int64, created hash, at int64) bool {
	s.mu.Lock()
	defer s.unlock()
	number, worth := s.table.leastWorth(created)
	if number == 0 || worth > most {
		return false
	}
	s.table.drop(number, at)
	return true
}
