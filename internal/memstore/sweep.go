package memstore

import (
	"context"
	"time"
)

// Purge calls Sweep with the time of Clock; see storage.Purger.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Sweep(s.Now(), max), nil
}

// Sweep removes up to max records that have expired at now; see memory.Store.
func (s *Store) Sweep(now time.Time, max int) (removed int) {
	at := instant(now)
	s.each(func(p *partition) bool {
		removed += p.removeExpired(at, max-removed)
		return removed < max
	})
	return removed
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

// mayHaveExpired reports without a lock whether the shard may hold an expired record.
func (s *shard) mayHaveExpired(at int64) bool {
	first := s.firstExpiry.Load()
	return first != unwritten && first <= at
}

// removeExpired removes up to max expired records, but at most 64, so that decisions do not wait
// long for the lock.
func (s *shard) removeExpired(at int64, max int) (removed int) {
	s.mu.Lock()
	defer s.unlock()
	for ; removed < min(max, 64); removed++ {
		number, expires := s.table.firstToExpire()
		if expires > at {
			break
		}
		s.table.removeAndCount(number, at)
	}
	s.table.freeIfEmpty()
	return removed
}
