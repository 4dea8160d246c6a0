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

// errCreated means that the statement was undone because another transaction created one of its
// keys.
var errCreated = errors.New("postgres: another transaction created one of the keys at the same time")

// classify wraps an error of the client. The result says whether nothing was applied, and whether a
// retry can help. An error of the server has undone the statement, unless the error ends the server,
// which may have committed before. An error of a pooler does not prove that the statement was
// undone.
func classify(err error) error {
	var e *pgconn.PgError
	unavailable := fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
	switch {
	case pgconn.SafeToRetry(err):
		return storage.NotApplied(unavailable)
	case !errors.As(err, &e), isOfPooler(e.Code), e.SeverityUnlocalized == "PANIC", e.Code == "40003": // statement_completion_unknown
		return unavailable
	case e.Code == "22P02" && strings.Contains(e.Message, createdMarker): // invalid_text_representation
		return errCreated
	case isContention(e.Code):
		return fmt.Errorf("postgres: %w: %w", storage.ErrContended, err)
	case isOutage(e.Code):
		return storage.NotApplied(unavailable)
	}
	return storage.NotApplied(fmt.Errorf("postgres: %w", withAdvice(err)))
}

// withAdvice adds a remedy to the errors for a missing table, column or function.
func withAdvice(err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == "42P01": // undefined_table
		return fmt.Errorf("%w; call Store.Migrate first", err)
	case e.Code == "42883": // undefined_function
		return fmt.Errorf("%w; call Store.Migrate first, or set Options.NoFunctions", err)
	case e.Code == "42703": // undefined_column
		return fmt.Errorf("%w; set Options.Table to another name, use another database, or drop this table if it holds only limits; then call Store.Migrate", err)
	}
	return err
}

// failure classifies an error of a statement on db. In a transaction of the caller, nothing of a
// failed transaction is applied, even if the connection is lost. A retry of the statement alone does
// not help there.
func (s *Store) failure(db DB, err error) error {
	classified := classify(err)
	switch {
	case errors.As(err, new(pgx.ScanArgError)): // there is a reply, so the statement was executed
		return fmt.Errorf("postgres: %w", err)
	case errors.Is(classified, errCreated):
		return classified
	case s.inTransaction():
		return storage.NotApplied(fmt.Errorf("postgres: the transaction has failed: %w", withAdvice(err)))
	case !errors.Is(classified, storage.ErrNotApplied) && isUnsent(db, err):
		return storage.NotApplied(fmt.Errorf("postgres: %w", err))
	}
	return classified
}

// isUnsent reports whether pgx refused to send the statement: the error is not one of the server, and
// the connection is still open.
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

// isOfPooler reports whether a code may be that of a pooler, which may have sent the statement on.
// PgBouncer and Odyssey use class 08, connection exceptions. PgCat uses class 58, system errors.
// Others use no valid code.
func isOfPooler(code string) bool {
	return len(code) != 5 || hasClass(code, "08", "58")
}

// isContention reports whether a code is that of a serialization failure, a deadlock, or a lock that
// was not free in time: NOWAIT, lock_timeout or statement_timeout.
func isContention(code string) bool {
	return code == "40001" || code == "40P01" || code == "55P03" || code == "57014"
}

// isLockTimeout reports whether the server gave up waiting for a lock.
func isLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isOutage reports whether a code is that of insufficient resources, operator intervention, or a
// read-only server such as a replica.
func isOutage(code string) bool {
	return hasClass(code, "53", "57") || code == "25006"
}

// hasClass reports whether a code has one of the classes, which are its first two characters.
func hasClass(code string, classes ...string) bool {
	return slices.ContainsFunc(classes, func(class string) bool { return strings.HasPrefix(code, class) })
}
