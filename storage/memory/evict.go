package memory

// evict restores the bound after a write of the records at locations.
func evict(locations []location, at int64) {
	for i := range locations {
		locations[i].shard.partition.evict(locations[i].hash, at)
	}
}

// evict removes records until the partition is within its bound, but never the record of keep. The
// caller must not hold the lock of a shard.
func (p *partition) evict(keep hash, at int64) {
	if p.isWithinBound() {
		return
	}
	p.evicting.Lock()
	defer p.evicting.Unlock()
	for !p.isWithinBound() && p.evictOne(keep, at) {
	}
}

func (p *partition) isWithinBound() bool { return p.counters.keys.Load() <= p.maxKeys }

// evictOne removes one record, as the comment of package memory defines. At most 7/8 of the records may be protected: if all
// were, each new key would evict the one before it.
func (p *partition) evictOne(keep hash, at int64) bool {
	if p.removeExpired(at, 1) > 0 {
		return true
	}
	if p.counters.protected.Load() > p.maxKeys-max(1, p.maxKeys/8) {
		return p.evictProtected(keep, at) || p.evictUnprotected(keep, at)
	}
	return p.evictUnprotected(keep, at) || p.evictProtected(keep, at)
}

// removeExpired removes up to max expired records.
func (p *partition) removeExpired(at int64, max int) (removed int) {
	for i := range p.shards {
		for removed < max && p.shards[i].mayHaveExpired(at) {
			removed += p.shards[i].removeExpired(at, max-removed)
		}
	}
	return removed
}

// evictUnprotected removes an unprotected record from the shard of keep, so a new record is evicted only after as many newer
// ones as there are unprotected records. If that shard has no other unprotected record, the other shards evict in turn.
func (p *partition) evictUnprotected(keep hash, at int64) bool {
	choose := func(t *table) uint32 { return t.secondChance(keep) }
	if p.shardOf(keep).removeChosen(choose, at) {
		return true
	}
	for range p.shards {
		p.nextShard = (p.nextShard + 1) % len(p.shards)
		if p.shards[p.nextShard].removeChosen(choose, at) {
			return true
		}
	}
	return false
}

// evictProtected removes the protected record with the lowest rank. If another goroutine has removed or written it meanwhile, it
// removes another one of its shard.
func (p *partition) evictProtected(keep hash, at int64) bool {
	lowest, lowestRank := (*shard)(nil), int64(none)
	for i := range p.shards {
		if rank := p.shards[i].lowestRank(keep); rank < lowestRank {
			lowest, lowestRank = &p.shards[i], rank
		}
	}
	choose := func(t *table) (number uint32) {
		number, _ = t.lowestRank(keep)
		return number
	}
	return lowest != nil && lowest.removeChosen(choose, at)
}
