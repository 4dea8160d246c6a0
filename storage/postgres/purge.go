package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// purgeBatch is how many records a statement of a purge removes or files again. It keeps
// them locked for some milliseconds.
const purgeBatch = 200

// Purge removes up to max records that have expired when it begins; see [storage.Purger].
// It finds records whose purge_at has passed by an index. Those that have been written
// since, and so expire later, it files again under their new expiry. It handles 200 records
// in a statement. It waits for no lock, because it passes over records that are being
// written. In the caller's transaction those that it handles stay locked.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	var now *time.Time // of the first statement: else it might never end while records come due again
	for removed < max {
		answers, err := collect(ctx, s, pgx.RowToStructByPos[purged], s.sql.purge, purgeBatch, max-removed, now)
		if err != nil {
			return removed, err
		}
		batch := answers[0]
		removed += batch.Removed
		if batch.Due < purgeBatch {
			return removed, nil
		}
		now = &batch.Now
	}
	return removed, nil
}

// purged is the answer to a statement of a purge: the records that were due, and of them
// those that were removed, at what time.
type purged struct {
	Due, Removed int
	Now          time.Time
}

// purgeSQL locks records that are due, files again those that have not expired, and removes
// the others, up to a number. It is ordered, so that the planner prefers the index to
// reading the table for the first that is due; and it goes by statement_timestamp(), because
// an index cannot be searched by the result of clock_timestamp(), which differs from row to
// row. It has arrays, so that the planner finds their rows by the key.
const purgeSQL = `
WITH _sluice_due AS MATERIALIZED (
	SELECT key, expires_at FROM TABLE WHERE purge_at <= coalesce($3::timestamptz, statement_timestamp())
	ORDER BY purge_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), _sluice_refiled AS (
	UPDATE TABLE SET purge_at = expires_at WHERE key = ANY(ARRAY(
		SELECT key FROM _sluice_due WHERE expires_at > coalesce($3::timestamptz, statement_timestamp())
	))
), _sluice_removed AS (
	DELETE FROM TABLE WHERE key = ANY(ARRAY(
		SELECT key FROM _sluice_due WHERE expires_at <= coalesce($3::timestamptz, statement_timestamp()) LIMIT $2::bigint
	)) AND expires_at <= coalesce($3::timestamptz, statement_timestamp()) RETURNING key
)
SELECT (SELECT count(*) FROM _sluice_due), (SELECT count(*) FROM _sluice_removed), coalesce($3::timestamptz, statement_timestamp())`
