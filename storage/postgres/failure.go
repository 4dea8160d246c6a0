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

const tableAdvice = "check whether the table has a trigger, a rule or a row-level security policy that drops, changes or hides rows; " +
	"remove it, or exempt the role of the store from it"

var (
	// errUnwritten means that nothing was applied, because a row would not be as it was written.
	errUnwritten = errors.New("postgres: a row was not written as requested; " + tableAdvice)
	// errUnpurged means that Purge could not remove a record or set its purge_at.
	errUnpurged = errors.New("postgres: expired records were not removed; " + tableAdvice)
)

var (
	// waited has the codes of a lock that was not free in time: NOWAIT or lock_timeout, statement_timeout, and
	// transaction_timeout.
	waited = []string{"55P03", "57014", "25P04"}
	// contention also has the codes of a serialization failure and a deadlock.
	contention = append([]string{"40001", "40P01"}, waited...)
	// outage has the classes of insufficient resources and operator intervention, and the code of a server that stops to write
	// before transaction IDs wrap around.
	outage = []string{"53", "57", "54000"}
	// pooler has the classes of errors that may be those of a pooler. PgBouncer and Odyssey use class
	// 08, connection exceptions. PgCat uses class 58, system errors, and Supavisor XX, internal errors.
	pooler = []string{"08", "58", "XX"}
	// duplicate has the codes if another session has created the table or the index: duplicate_table,
	// duplicate_object (for its type) and unique_violation in the catalog.
	duplicate = []string{"42P07", "42710", "23505"}
)

// advice has the remedies for a missing table, function, primary key or column.
var advice = map[string]string{
	"42P01": "call Store.Migrate first",
	"42883": "call Store.Migrate first, or set Options.NoFunctions",
	"42P10": "add the missing primary key on the column key to the table",
	"42703": "set Options.Table to another name, use another database, or drop this table if it holds only limits; then call Store.Migrate",
}

// poolerAdvice is the remedy if a pooler has lost a prepared statement.
const poolerAdvice = "a pooler such as PgBouncer in transaction mode does not keep the prepared statements of pgx; " +
	"add default_query_exec_mode=exec to the connection string, or use PgBouncer 1.21 or later with max_prepared_statements above 0"

// isPreparedElsewhere reports whether the server refused a prepared statement, which exists already, does not exist, or is
// another one, because a pooler gave the connection to several clients. Nothing was executed. PgBouncer also uses 08P01 for
// its own errors, which have no routine. The message of the server can be in any language.
func isPreparedElsewhere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P05" || e.Code == "26000" || e.Code == "08P01" && e.Routine == "exec_bind_message")
}

// isReadOnly reports whether a read-only server such as a replica refused a statement. A replica does not even read an unlogged
// table: then it fails in get_relation_info.
func isReadOnly(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "25006" || e.Code == "0A000" && e.Routine == "get_relation_info")
}

// codeOf returns the code of an error of the server, or "".
func codeOf(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func hasPrefix(code string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(code, prefix) })
}

// classify wraps an error of the client, and says whether nothing was applied and whether a retry can help. An error of the
// server has undone the statement, unless it ends the server, which may have committed before. A pooler, some of which use no
// valid code, may have sent the statement on before its error.
func classify(err error) error {
	var e *pgconn.PgError
	unavailable := fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
	switch {
	case pgconn.SafeToRetry(err):
		return storage.NotApplied(unavailable)
	case isPreparedElsewhere(err): // a retry does not help
	case !errors.As(err, &e), len(e.Code) != 5 || hasPrefix(e.Code, pooler), e.SeverityUnlocalized == "PANIC", e.Code == "40003": // statement_completion_unknown
		return unavailable
	case strings.Contains(e.Message, createdMarker):
		return fmt.Errorf("%w (%s)", errCreated, e.Message)
	case strings.Contains(e.Message, unwrittenMarker):
		return storage.NotApplied(errUnwritten)
	case slices.Contains(contention, e.Code):
		return fmt.Errorf("postgres: %w: %w", storage.ErrContended, err)
	case hasPrefix(e.Code, outage), isReadOnly(err):
		return storage.NotApplied(unavailable)
	}
	return storage.NotApplied(fmt.Errorf("postgres: %w", withAdvice(err)))
}

// withAdvice adds the remedy, if there is one.
func withAdvice(err error) error {
	remedy := advice[codeOf(err)]
	if isPreparedElsewhere(err) {
		remedy = poolerAdvice
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// failure classifies an error of a statement on db. If a transaction of the caller fails, nothing of it is applied, even if
// the connection is lost, and a retry of the statement alone does not help.
func (s *Store) failure(db DB, err error) error {
	classified := classify(err)
	switch {
	case errors.As(err, new(pgx.ScanArgError)): // there is a reply, so the statement was executed
		return fmt.Errorf("postgres: %w", err)
	case errors.Is(classified, errCreated), errors.Is(classified, errUnwritten):
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
