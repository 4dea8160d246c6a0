package sqlite

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Purger = (*Store)(nil)

// Purge removes up to max expired records; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (int, error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	conn, err := s.connection(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.release()
	var n int64
	err = conn.patiently(ctx, func(ctx context.Context) error {
		r, err := conn.ExecContext(ctx, s.sql.purge, s.now(), max)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, failure(err)
	}
	return int(n), nil
}
