package serve

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

const (
	purgeEvery = time.Minute
	purgeBatch = 1000
	purgeTime  = time.Minute // for one batch: the store may have to look at many more records
)

// purge removes the store's expired records.
func (s *Server) purge(ctx context.Context, purger storage.Purger) {
	if s.missing.Load() {
		return
	}
	removed, err := purgeAll(ctx, purger)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.metrics.purges.WithLabelValues(failed).Inc()
		s.sampled.Warn("removing expired records from the store failed", "error", err)
	default:
		s.metrics.purges.WithLabelValues(succeeded).Inc()
		s.sampled.Debug("removed expired records", "removed", removed)
	}
}

// purgeAll removes all expired records in batches, so that the store can write decisions in
// between.
func purgeAll(ctx context.Context, purger storage.Purger) (removed int, err error) {
	for n := purgeBatch; n == purgeBatch && err == nil; removed += n {
		batch, cancel := context.WithTimeout(ctx, purgeTime)
		n, err = purger.Purge(batch, purgeBatch)
		cancel()
	}
	return removed, err
}
