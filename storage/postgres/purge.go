package postgres

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// Purge removes up to max expired records; see [storage.Purger]. It is one statement, which
// finds the records by an index. It waits for no lock, because it passes over records that
// are being written. It locks no other records than those that it removes.
func (s *Store) Purge(ctx context.Context, max int) (int, error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	db, release, err := s.connection(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	tag, err := db.Exec(ctx, s.sql.purge, max)
	if err != nil {
		return 0, s.failed(db, err)
	}
	return int(tag.RowsAffected()), nil
}

// purgeSQL has an array, because a subquery with a limit might run twice. It is ordered, so
// that the planner prefers the index to reading the table for the first that has expired;
// and it goes by statement_timestamp(), because an index cannot be searched by the result
// of clock_timestamp(), which differs from row to row.
const purgeSQL = `DELETE FROM TABLE WHERE key = ANY(ARRAY(
	SELECT key FROM TABLE WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)) AND expires_at <= statement_timestamp()`
