package sqlite

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// purgeBatch is how many records a purge removes or files again while it holds the write
// lock, for less than a few milliseconds on most disks.
const purgeBatch = 200

// Purge removes up to max records that have expired when it begins; see [storage.Purger].
// It finds records whose purge_at has passed by an index. Those that have been written
// since, and so expire later, it files again under their new expiry. It handles 200 records
// in a transaction. After each full transaction it rests, so that the writers that wait for
// the lock get it. If it fails or ctx ends, it returns the error and the number of records
// that it has removed.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	now := s.now() // once: else it might never end while records come due again
	for removed < max {
		began := time.Now()
		n, refiled, err := s.purge(ctx, now, max-removed)
		removed += n
		if err != nil || n+refiled < purgeBatch {
			return removed, err
		}
		rest(ctx, time.Since(began))
	}
	return removed, nil
}

// purge is one transaction of Purge. Files records again first: those of the batch that are
// then still due have expired.
func (s *Store) purge(ctx context.Context, now int64, max int) (removed, refiled int, err error) {
	err = s.transaction(ctx, func(c *connection) error {
		return c.raw(func() error {
			n, err := c.exec(s.sql.refile, now, int64(purgeBatch))
			if err != nil {
				return err
			}
			refiled = int(n)
			n, err = c.exec(s.sql.purge, now, int64(min(purgeBatch-refiled, max)))
			removed = int(n)
			return err
		})
	})
	if err != nil {
		return 0, 0, err
	}
	return removed, refiled, nil
}

// rest waits for as long as the transaction before it took, and at least twice as long as
// a store that finds the lock held waits before it tries again.
func rest(ctx context.Context, took time.Duration) {
	sleep(ctx, max(took, 2*longestPause))
}
