package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Parallel = (*Store)(nil)

// InFlight implements [storage.Parallel]. Commits that are under way together share
// a flush of the log; a connection or transaction of the caller has one at a time.
func (s *Store) InFlight() int {
	if pool, ok := s.db.(*pgxpool.Pool); ok {
		return min(parallel, int(pool.Config().MaxConns))
	}
	return 1
}

const parallel = 4
