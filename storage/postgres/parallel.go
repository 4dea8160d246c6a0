package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Parallel = (*Store)(nil)

// InFlight implements [storage.Parallel]. Commits that are under way together share
// a flush of the log. A connection or transaction of the caller is his alone.
func (s *Store) InFlight() int {
	if pool, ok := s.db.(*pgxpool.Pool); ok {
		return min(parallel, int(pool.Config().MaxConns))
	}
	return 0
}

// parallel is so few because with more, groups that could share a statement would each
// have one.
const parallel = 2
