package memory

import (
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
//	MaxKeys int               the maximum number of records of one rule; 0 means DefaultMaxKeys, math.MaxInt none
//	Clock   func() time.Time  the clock of Load, CompareAndSwap and Purge; nil means the monotonic clock
//
// Besides the methods of [storage.Store], [storage.Purger] and [driver.InPlace] it has
//
//	Now() time.Time                             the time of Clock, or of the monotonic clock
//	Sweep(now time.Time, max int) (removed int) removes up to max records that have expired at now
//	Stats() Stats                               counts the records
type Store = memstore.Store

// Stats counts the records of a [Store], and those that it has evicted or removed after they expired.
type Stats = memstore.Stats

var (
	_ driver.InPlace = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
)
