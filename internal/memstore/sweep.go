package memstore

import (
	"context"
	"time"
)

// Purge is Sweep at the time of Clock; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Sweep(s.Now(), max), nil
}

// Sweep drops up to max records that have lapsed at now, and returns how many. No
// store needs sweeping to stay correct or bounded, because lapsed records are the first
// to be evicted. Sweeping takes that work out of the decisions, and it frees the memory
// of the records of rules that are not used any more.
func (s *Store) Sweep(now time.Time, max int) (removed int) {
	at := instant(now)
	s.each(func(p *partition) bool {
		for i := range p.shards {
			removed += p.shards[i].sweep(at, max-removed)
		}
		return removed < max
	})
	return removed
}

// sweepBatch is how many records are dropped under one hold of a lock.
const sweepBatch = 64

func (s *shard) sweep(at int64, max int) (removed int) {
	for removed < max && s.mayHaveLapsed(at) {
		removed += s.dropLapsed(at, min(max-removed, sweepBatch))
	}
	if removed > 0 {
		s.mu.Lock()
		s.table.reset()
		s.unlock()
	}
	return removed
}

// mayHaveLapsed reports whether the shard may hold a record that has lapsed. It takes no lock.
func (s *shard) mayHaveLapsed(at int64) bool {
	nearest := s.nearest.Load()
	return nearest != untouched && nearest <= at
}

// dropLapsed drops up to most records that have lapsed, and counts them.
func (s *shard) dropLapsed(at int64, most int) (dropped int) {
	s.mu.Lock()
	defer s.unlock()
	for ; dropped < most; dropped++ {
		number, lapses := s.table.firstToLapse()
		if number == 0 || lapses > at {
			break
		}
		s.table.drop(number, at)
	}
	return dropped
}
