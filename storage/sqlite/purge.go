package sqlite

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// purgeBatch is the maximum number of records that a transaction of Purge handles. On most disks, such a
// transaction holds the write lock for a few milliseconds at most.
const purgeBatch = 200

// Purge removes up to limit records that have expired when Purge begins; see [storage.Purger]. If a
// later write has postponed the expiry of a record, Purge sets its purge_at to the new expiry. A
// transaction of Purge handles at most 200 records. Purge pauses before the next one, so that
// waiting writers get the lock.
func (s *Store) Purge(ctx context.Context, limit int) (removed int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	now := s.now() // read once: otherwise Purge might never end while more records expire
	for removed < limit {
		began := time.Now()
		n, postponed, err := s.purge(ctx, now, limit-removed)
		removed += n
		if err != nil || n+postponed < purgeBatch {
			return removed, err
		}
		sleep(ctx, max(time.Since(began), 2*maxBackoff)) // writers retry after maxBackoff at most
	}
	return removed, nil
}

// purge is one transaction of Purge. It first sets the purge_at of the records that have not expired.
// Then all records whose purge_at has passed have expired.
func (s *Store) purge(ctx context.Context, now int64, limit int) (removed, postponed int, err error) {
	err = s.transaction(ctx, func(c *connection) error {
		n, err := c.exec(s.sql.postpone, now, int64(purgeBatch))
		if err != nil {
			return err
		}
		postponed = int(n)
		n, err = c.exec(s.sql.purge, now, int64(min(purgeBatch-postponed, limit)))
		removed = int(n)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return removed, postponed, nil
}
