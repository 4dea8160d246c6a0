package sqlite

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// purgeBatch is how many records a purge removes while it holds the write lock, for less
// than a millisecond on most disks.
const purgeBatch = 200

// Purge removes up to max expired records; see [storage.Purger]. It finds them by an index
// and removes 200 in a transaction. After each full transaction it rests, so that the
// writers that wait for the lock get it. If it fails or ctx ends, it returns the error and
// the number of records that it has removed.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	for removed < max {
		began, size := time.Now(), min(purgeBatch, max-removed)
		n, err := s.purge(ctx, size)
		removed += n
		if err != nil || n < size {
			return removed, err
		}
		rest(ctx, time.Since(began))
	}
	return removed, nil
}

// purge is one transaction of Purge.
func (s *Store) purge(ctx context.Context, size int) (removed int, err error) {
	err = s.connect(ctx, func(c *connection) error {
		err := c.patiently(ctx, func() error {
			n, err := c.exec(s.sql.purge, s.now(), int64(size))
			removed = int(n)
			return err
		})
		return failure(err)
	})
	return removed, err
}

// rest waits for as long as the transaction before it took, and at least twice as long as
// a store that finds the lock held waits before it tries again.
func rest(ctx context.Context, took time.Duration) {
	timer := time.NewTimer(max(took, 2*longestPause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
