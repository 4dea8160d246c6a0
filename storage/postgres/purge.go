package postgres

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// Purge removes up to max expired records; see [storage.Purger]. It waits for
// no lock: records that are being written are passed over.
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

// purgeSQL has an array, because a subquery with a limit might run twice.
const purgeSQL = `DELETE FROM TABLE WHERE key = ANY(ARRAY(
	SELECT key FROM TABLE WHERE expires_at <= clock_timestamp() LIMIT $1 FOR UPDATE SKIP LOCKED
)) AND expires_at <= clock_timestamp()`
