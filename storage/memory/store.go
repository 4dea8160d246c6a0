package memory

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultMaxKeys is the maximum number of records of one rule if MaxKeys is 0: 1<<20. That many
// records take about 70 MB.
const DefaultMaxKeys = memstore.DefaultMaxKeys

// Store keeps records in memory. The zero Store is ready for use. Any number of goroutines may
// use it concurrently. It must not be copied, and its fields must not change after the first use.
// It needs no Close. Its fields are
//
//	MaxKeys int               the maximum number of records of one rule; 0 or less means DefaultMaxKeys; math.MaxInt means no maximum
//	Clock   func() time.Time  the clock of Load, CompareAndSwap and Purge; nil means the monotonic clock, see Now
//
// Two keys have the same rule if driver.CutKey returns the same rule for both. During concurrent writes
// a rule can exceed MaxKeys for a moment, at most by the number of records that these writes add.
type Store memstore.Store

var (
	_ driver.InPlace = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
)

func (s *Store) table() *memstore.Store { return (*memstore.Store)(s) }

// Load returns the records at the time of Clock; see [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	return s.table().Load(ctx, keys...)
}

// CompareAndSwap applies swaps at the time of Clock; see [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	return s.table().CompareAndSwap(ctx, swaps...)
}

// Update decides in place; see [driver.InPlace].
func (s *Store) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	return s.table().Update(ctx, now, keys, d)
}

// Purge removes up to max records that have expired at the time of Clock; see [storage.Purger]. A
// store is correct and bounded without Purge, because expired records are the first to be evicted.
// If you call Purge, decisions spend less time on evicting. If a rule has no records any more,
// Purge also frees the memory that the rule's records used.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	return s.table().Purge(ctx, max)
}

// Now returns the time of Clock. If Clock is nil, Now returns the time of the wall clock at its first
// call, plus the time that has passed since then by the monotonic clock.
//
// So Now ignores later changes of the wall clock. On most systems the monotonic clock does not count
// the time while the machine sleeps. Reading it costs half as much as time.Now. Set Clock to time.Now
// if a limit has windows that must start with the hours of the wall clock.
func (s *Store) Now() time.Time { return s.table().Now() }

// Stats returns the sums over all rules. If other goroutines write, the numbers are of slightly
// different instants.
func (s *Store) Stats() Stats { return Stats(s.table().Stats()) }

// Stats counts the records of a store. Its counters start when the store is created.
type Stats struct {
	Keys    int   // records in the store, including expired ones
	Evicted int64 // records that were removed before they expired, because the store was full
	Expired int64 // records that were removed after they expired
}
