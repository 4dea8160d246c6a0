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
	var n int64
	err := s.connect(ctx, func(c *connection) error {
		err := c.patiently(ctx, func() (err error) {
			n, err = c.exec(s.sql.purge, s.now(), int64(max))
			return err
		})
		return failure(err)
	})
	return int(n), err
}
