package memory

import (
	"context"
	"runtime"
	"time"
)

// Stats says what a store holds and what it had to drop.
type Stats struct {
	Keys    int   // records held, lapsed ones included
	Evicted int64 // records dropped to make room while they still meant something, since the beginning
	Lapsed  int64 // records dropped after they had lapsed, since the beginning
}

// Stats counts. While others write, the numbers are of slightly different
// instants.
func (s *Store) Stats() Stats {
	stats := Stats{Keys: int(s.keys.Load())}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		stats.Evicted += sh.table.evicted
		stats.Lapsed += sh.table.lapsed
		sh.mu.Unlock()
	}
	return stats
}

// Purge is Sweep at the time of Clock; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Sweep(s.Now(), max), nil
}

// Sweep drops up to max records that have lapsed at now, and says how many. No
// store needs sweeping to stay correct or bounded, since what has lapsed makes
// room by itself. It takes that work out of the decisions, and [Stats.Keys] then
// counts hardly more than what is in use.
func (s *Store) Sweep(now time.Time, max int) (removed int) {
	at := instant(now)
	for i := range s.shards {
		for removed < max && s.lapsedIn(i, at) {
			removed += s.sweep(i, at, min(max-removed, sweepBatch))
		}
	}
	return removed
}

// sweepBatch is how many records are dropped under one hold of a lock.
const sweepBatch = 64

func (s *Store) lapsedIn(i int, at int64) bool {
	nearest := s.nearest[i].Load()
	return nearest != untouched && nearest <= at
}

func (s *Store) sweep(i int, at int64, max int) (removed int) {
	sh := &s.shards[i]
	sh.mu.Lock()
	defer s.unlock(1 << i)
	for removed < max {
		number, lapses := sh.table.first()
		if number == 0 || lapses > at {
			break
		}
		sh.table.drop(number, at)
		removed++
	}
	s.keys.Add(int64(-removed))
	return removed
}

// reserve takes room for n more records, if there is as much.
func (s *Store) reserve(n int) bool {
	if n == 0 {
		return true
	}
	for limit := s.maxKeys(); ; {
		keys := s.keys.Load()
		if keys > limit-int64(n) {
			return false
		}
		if s.keys.CompareAndSwap(keys, keys+int64(n)) {
			return true
		}
	}
}

// makeRoom drops records until n more fit, lapsed ones first, then those that are
// nearest to lapsing. It holds no lock but the one of the shard it drops from.
func (s *Store) makeRoom(n int, at int64) error {
	limit := s.maxKeys()
	if int64(n) > limit {
		return s.tooMany(n)
	}
	for s.keys.Load() > limit-int64(n) {
		s.evict(at)
	}
	return nil
}

// evict drops the record that lapses first. A shard's published instant may be
// too early, since a record that was given more time, or removed, is noticed
// only when it comes up; then the next look finds another shard first.
func (s *Store) evict(at int64) {
	for looks := 1; ; looks++ {
		i, next := s.soonest()
		if i < 0 { // all the room is reserved by writers who are about to use it
			runtime.Gosched()
			return
		}
		if looks > shards { // others write meanwhile: nearly the first must do
			next = never
		}
		if s.evictFrom(i, next, at) {
			return
		}
	}
}

// evictFrom drops the first record of shard i to lapse, if it lapses by limit.
func (s *Store) evictFrom(i int, limit, at int64) bool {
	sh := &s.shards[i]
	sh.mu.Lock()
	defer s.unlock(1 << i)
	number, lapses := sh.table.first()
	if number == 0 || lapses > limit {
		return false
	}
	sh.table.drop(number, at)
	s.keys.Add(-1)
	return true
}

// soonest is the shard whose first record lapses first, and when the next shard's
// does; -1 when all are empty.
func (s *Store) soonest() (i int, next int64) {
	i, next = -1, never
	first := int64(never)
	for j := range s.nearest {
		switch nearest := s.nearest[j].Load(); {
		case nearest == untouched || nearest == none: // empty
		case i < 0 || nearest < first:
			i, first, next = j, nearest, first
		case nearest < next:
			next = nearest
		}
	}
	return i, next
}
