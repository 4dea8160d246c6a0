package postgres

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// purgeBatch is how many records a statement of Purge handles. It locks them for some milliseconds.
const purgeBatch = 200

// Purge removes up to max records that had expired when it began; see [storage.Purger]. If a record
// whose purge_at has passed was written again, Purge sets purge_at to the new expiry. Purge skips
// locked records instead of waiting. In the caller's transaction, the records that it handles stay
// locked.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	var now *time.Time // the time of the first statement; otherwise new due records might keep Purge running for ever
	for removed < max {
		rows, err := collect[purgeRow](ctx, s, s.sql.purge, purgeBatch, max-removed, now)
		if err != nil {
			return removed, err
		}
		batch := rows[0]
		removed += batch.Removed
		if batch.Due < purgeBatch {
			return removed, nil
		}
		now = &batch.Now
	}
	return removed, nil
}

// purgeRow is the reply to a statement of Purge: how many records were due, how many of them were
// removed, and the time.
type purgeRow struct {
	Due, Removed int
	Now          time.Time
}
