package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/storage"
)

// errRaced says that the swap statement undid itself: a key was created by
// another at the same moment.
var errRaced = errors.New("postgres: a key was created meanwhile")

// failure says of what the client said whether anything was applied, and
// whether trying again can help. An error that the server reports for a
// statement has undone it.
func failure(err error) error {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && e.Code == "22012": // division_by_zero
		return errRaced
	case errors.As(err, &e) && isContention(e.Code):
		return fmt.Errorf("postgres: %w: %w", storage.ErrContended, err)
	case errors.As(err, &e) && !isOutage(e.Code):
		return storage.NotApplied(fmt.Errorf("postgres: %w", err))
	case e != nil, pgconn.SafeToRetry(err):
		return storage.NotApplied(fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err))
	}
	return fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
}

// failed is failure, but for what fails in a transaction of the caller. The
// server has undone that, or will when it misses the connection, so nothing of it
// was or will be applied; and to try again helps only with the whole of it.
func (s *Store) failed(err error) error {
	told := failure(err)
	if !s.inside() || errors.Is(told, errRaced) {
		return told
	}
	return storage.NotApplied(fmt.Errorf("postgres: the transaction has failed: %w", err))
}

// isContention is true for a serialization failure, a deadlock resolved, and a
// lock that was not had in time: NOWAIT, lock_timeout or statement_timeout.
func isContention(code string) bool {
	return code == "40001" || code == "40P01" || code == "55P03" || code == "57014"
}

// isOutage is true for connection exceptions, insufficient resources, operator
// intervention, and a server that is read-only, as a replica is.
func isOutage(code string) bool {
	switch code[:2] {
	case "08", "53", "57":
		return true
	}
	return code == "25006"
}
