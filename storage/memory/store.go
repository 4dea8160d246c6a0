package memory

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultMaxKeys is how many records of one rule a Store holds at most when its MaxKeys is
// 0: about 70 MB of them.
const DefaultMaxKeys = memstore.DefaultMaxKeys

// Store keeps records in memory. The zero Store is ready for use. It may be used
// from any number of goroutines, must not be copied, and its fields must not be
// changed once it is in use. It needs no closing.
type Store struct {
	// MaxKeys is how many records of one rule are held at most (and, for a moment, one
	// more for each write under way); 0 or less: DefaultMaxKeys, and for no bound math.MaxInt.
	// Keys with the same driver.RuleOfKey are of one rule; a limiter makes such keys.
	MaxKeys int
	// Clock tells the time to the methods that are not handed one: Load,
	// CompareAndSwap and Purge; nil: the monotonic clock, see Now.
	Clock func() time.Time

	table atomic.Pointer[memstore.Store] // nil until it is used
}

var (
	_ driver.InPlace = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
)

// Table returns the records. Limiters decide on them; you do not need it to use the store.
func (s *Store) Table() *memstore.Store {
	if t := s.table.Load(); t != nil {
		return t
	}
	s.table.CompareAndSwap(nil, &memstore.Store{MaxKeys: s.MaxKeys, Clock: s.Clock})
	return s.table.Load()
}

// Load reads records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	return s.Table().Load(ctx, keys...)
}

// CompareAndSwap swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	return s.Table().CompareAndSwap(ctx, swaps...)
}

// Update decides in place; see [driver.InPlace].
func (s *Store) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	return s.Table().Update(ctx, now, keys, d)
}

// Purge is Sweep at the time of Clock; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	return s.Table().Purge(ctx, max)
}

// Sweep drops up to max records that have lapsed at now, and returns how many. No
// store needs sweeping to stay correct or bounded, because lapsed records are the first
// to be evicted. Sweeping takes that work out of the decisions, and it frees the memory
// of the records of rules that are not used any more.
func (s *Store) Sweep(now time.Time, max int) (removed int) { return s.Table().Sweep(now, max) }

// Now is the time by Clock, or by the monotonic clock if that is nil. The latter
// begins with the wall clock's time when it is first asked, and from then on
// never steps back or ahead, whoever sets the wall clock; nor does it count, on
// most systems, the time for which the machine sleeps. It takes half as long to
// read. A limit whose windows are to begin with the hours of the wall clock
// wants time.Now for its clock.
func (s *Store) Now() time.Time { return s.Table().Now() }

// Stats says what a store holds and what it had to drop.
type Stats struct {
	Keys    int   // records held, lapsed ones included
	Evicted int64 // records dropped to make room before they had lapsed, since the beginning
	Lapsed  int64 // records dropped after they had lapsed, since the beginning
}

// Stats counts over all rules. While others write, the numbers are of slightly different
// instants.
func (s *Store) Stats() Stats { return Stats(s.Table().Stats()) }
