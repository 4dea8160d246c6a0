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

// purgeInBackground removes the store's expired records once every purgeEvery, until stop is
// called. stop returns when no purge runs any more. A store without a Purge needs none.
func (s *Server) purgeInBackground() (stop func()) {
	purger, ok := s.store.Store.(storage.Purger)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(s.purgeEvery)
		defer ticks.Stop()
		s.purgeAt(ctx, ticks.C, purger)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *Server) purgeAt(ctx context.Context, ticks <-chan time.Time, purger storage.Purger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if s.missing.Load() {
			continue
		}
		removed, err := purgeAll(ctx, purger)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.metrics.purges.WithLabelValues(succeeded).Inc()
			s.sampled.Debug("removed expired records", "removed", removed)
		default:
			s.metrics.purges.WithLabelValues(failed).Inc()
			s.sampled.Warn("removing expired records from the store failed", "error", err)
		}
	}
}

// purgeAll removes all expired records in batches, so that the store can write decisions in
// between.
func purgeAll(ctx context.Context, purger storage.Purger) (removed int, err error) {
	for {
		n, err := purgeOnce(ctx, purger)
		removed += n
		if err != nil || n < purgeBatch {
			return removed, err
		}
	}
}

func purgeOnce(ctx context.Context, purger storage.Purger) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	return purger.Purge(ctx, purgeBatch)
}
