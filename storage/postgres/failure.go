package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/storage"
)

// errRaced says that the swap statement undid itself: a key was created by
// another at the same moment.
var errRaced = errors.New("postgres: a key was created meanwhile")

// failure makes of an error of the client one that says whether anything was applied,
// and whether trying again can help. An error that the server reports for a statement
// has undone it, unless it ends the server, which may have committed it by then; what a
// pooler reports proves nothing.
func failure(err error) error {
	var e *pgconn.PgError
	unavailable := fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
	switch {
	case pgconn.SafeToRetry(err):
		return storage.NotApplied(unavailable)
	case !errors.As(err, &e), isPoolers(e.Code), e.SeverityUnlocalized == "PANIC", e.Code == "40003": // statement_completion_unknown
		return unavailable
	case e.Code == "22P02" && strings.Contains(e.Message, undone): // invalid_text_representation
		return errRaced
	case isContention(e.Code):
		return fmt.Errorf("postgres: %w: %w", storage.ErrContended, err)
	case isOutage(e.Code):
		return storage.NotApplied(unavailable)
	}
	return storage.NotApplied(fmt.Errorf("postgres: %w", advised(err)))
}

// advised adds to err what to do if there is no table, or one with other columns, or no
// function.
func advised(err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == "42P01": // undefined_table
		return fmt.Errorf("%w; call Store.Migrate first", err)
	case e.Code == "42883": // undefined_function
		return fmt.Errorf("%w; call Store.Migrate first, or set Options.NoFunctions", err)
	case e.Code == "42703": // undefined_column
		return fmt.Errorf("%w; name another table in Options.Table or another database, or drop this one if it holds nothing but limits, and call Store.Migrate", err)
	}
	return err
}

// failed is failure, for what was asked on db. In a transaction of the caller the
// server has undone what fails, or will when it misses the connection, so nothing of
// it was or will be applied; and to try again helps only with the whole of it.
func (s *Store) failed(db DB, err error) error {
	told := failure(err)
	switch {
	case errors.As(err, new(pgx.ScanArgError)): // an answer, so the statement has run
		return fmt.Errorf("postgres: %w", err)
	case errors.Is(told, errRaced):
		return told
	case s.inside():
		return storage.NotApplied(fmt.Errorf("postgres: the transaction has failed: %w", advised(err)))
	case !errors.Is(told, storage.ErrNotApplied) && isUnsent(db, err):
		return storage.NotApplied(fmt.Errorf("postgres: %w", err))
	}
	return told
}

// isUnsent is true for an error that is neither the server's nor the connection's,
// which is as good as before: pgx has refused to send the statement.
func isUnsent(db DB, err error) bool {
	if errors.As(err, new(*pgconn.PgError)) {
		return false
	}
	switch db := db.(type) {
	case *pgx.Conn:
		return !db.IsClosed()
	case interface{ Conn() *pgx.Conn }:
		return !db.Conn().IsClosed()
	}
	return false
}

// isPoolers is true for what a pooler says of itself, also of a statement that it has
// sent on: PgBouncer and Odyssey of class 08, connection exceptions, and PgCat of
// class 58, system errors; or without a code.
func isPoolers(code string) bool {
	return len(code) != 5 || isOf(code, "08", "58")
}

// isContention is true for a serialization failure, a deadlock resolved, and a
// lock that was not had in time: NOWAIT, lock_timeout or statement_timeout.
func isContention(code string) bool {
	return code == "40001" || code == "40P01" || code == "55P03" || code == "57014"
}

// isLockTimeout reports whether the server gave up waiting for a lock.
func isLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isOutage is true for insufficient resources, operator intervention, and a
// server that is read-only, as a replica is.
func isOutage(code string) bool {
	return isOf(code, "53", "57") || code == "25006"
}

// isOf is true for a code of one of the classes, which are its first two characters.
func isOf(code string, classes ...string) bool {
	return slices.ContainsFunc(classes, func(class string) bool { return strings.HasPrefix(code, class) })
}
