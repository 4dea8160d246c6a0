package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
)

// qualified returns a name in the schema of the options.
func (o Options) qualified(name string) string {
	if o.Schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{o.Schema, name}.Sanitize()
}

// Schema returns the DDL of the table, its index and the functions. Without Options.Schema, it uses the first existing schema of
// search_path. You can apply it several times.
func (s *Store) Schema() string {
	return s.tableSchema() + s.indexSchema() + program.Create(s.options.Schema, s.allFunctions...)
}

func (s *Store) tableSchema() string {
	kind := "TABLE"
	if s.options.Unlogged {
		kind = "UNLOGGED TABLE"
	}
	return fmt.Sprintf(`CREATE %s IF NOT EXISTS %s (
	key        bytea       NOT NULL PRIMARY KEY,
	version    bigint      NOT NULL, -- random, new with each write
	state      bytea       NOT NULL,
	expires_at timestamptz NOT NULL, -- infinity if the record never expires
	purge_at   timestamptz NOT NULL  -- when Purge checks the record; not after expires_at
) WITH (fillfactor = 70); -- leaves space for HOT updates
`, kind, s.options.qualified(s.options.Table))
}

func (s *Store) indexSchema() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (purge_at);\n", pgx.Identifier{indexName(s.options.Table)}.Sanitize(), s.options.qualified(s.options.Table))
}

// indexName returns the name of the index of a table. PostgreSQL would truncate a long name, perhaps
// to the name of the table itself.
func indexName(table string) string {
	suffix := "_purge_at"
	if len(table)+len(suffix) > maxNameLen {
		hash := sha256.Sum256([]byte(table))
		suffix = fmt.Sprintf("_%x", hash[:8]) + suffix
		table = strings.ToValidUTF8(table[:maxNameLen-len(suffix)], "")
	}
	return table + suffix
}

// Migrate creates the table, its index and the functions if they are missing. Every process can call it at startup. If nothing is
// missing, it needs no right to create anything, and the session may be read-only. It fails if the table lacks a column. Its
// errors are those of a [storage.Store].
//
// Without Options.Schema, it looks for the table in search_path, and creates the rest beside it. Functions have names of sluice_
// and a hash, so processes with different versions of this module can share a table. You may drop those that no process uses.
// After a rename of the schema, only their owner may call Migrate, which replaces them.
//
// Writers wait while Migrate creates the index of a large table. To avoid that, call CREATE INDEX CONCURRENTLY before. If the
// server ends Migrate in favour of others, it tries again for five seconds. In your own transaction it tries once, and the
// transaction stays usable.
func (s *Store) Migrate(ctx context.Context) error {
	var err error
	for began := time.Now(); ; retrywait.Pause(ctx, migratePause) {
		unprepared := s.unprepared.Load()
		if next := s.create(ctx); next == nil || err == nil || ctx.Err() == nil { // otherwise err has the reason
			err = next
		}
		isLost := isPreparedElsewhere(err) && !unprepared // see collectOn
		code := codeOf(err)
		mayRetry := isLost || slices.Contains(duplicate, code) || (slices.Contains(contention, code) || errors.Is(err, errOtherIndex)) && !s.inTransaction()
		if !mayRetry || time.Since(began) >= migrateTime || ctx.Err() != nil {
			return s.migrateFailure(err)
		}
		if isLost {
			s.unprepared.Store(true)
		}
	}
}

const (
	migrateTime  = 5 * time.Second // for attempts of Migrate
	migratePause = 10 * time.Millisecond
)

// migrateFailure classifies an error of Migrate, or nil.
func (s *Store) migrateFailure(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("create table %s: %w", s.options.qualified(s.options.Table), err)
	if s.inTransaction() || errors.Is(err, storage.ErrNotApplied) || isPoolClosed(err) { // a retry of this call alone does not help
		return storage.NotApplied(fmt.Errorf("postgres: %w", withAdvice(err)))
	}
	return classify(err)
}

var errInvalidIndex = errors.New("the index on purge_at is not valid, because CREATE INDEX CONCURRENTLY failed or is not finished; wait for it, or drop the index and call Store.Migrate again")

// errOtherIndex can also mean that the snapshot of the transaction is older than the index.
var errOtherIndex = errors.New("is on another table or column; rename it")

var errHidden = errors.New("search_path finds the functions of a former table first; drop them, or set Options.Schema")

// create creates what is missing. It uses a transaction, or a savepoint in the caller's transaction, so that a failed statement
// does not end that one.
func (s *Store) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		defer func() {
			s.closeReadOnly(ctx, tx, err)
			if err != nil && isUnsent(tx, err) { // for instance errHidden
				err = storage.NotApplied(err)
			}
		}()
		var table, index, invalid bool
		readInfo := func() error {
			return s.queryRow(ctx, tx, tableInfoSQL, s.options.qualified(s.options.Table)).Scan(&table, &index, &invalid)
		}
		if err := readInfo(); err != nil {
			return err
		}
		ddl := "SELECT key, version, state, expires_at, purge_at FROM " + s.options.qualified(s.options.Table) + " LIMIT 0;\n"
		if !table {
			ddl = s.tableSchema() + ddl
		}
		if invalid && !index {
			return errInvalidIndex
		}
		if !index {
			ddl += s.indexSchema()
		}
		if _, err := tx.Exec(ctx, ddl); err != nil {
			return err
		}
		if !index {
			if err := readInfo(); err != nil {
				return err
			}
			if !index {
				return fmt.Errorf("the index %q %w", indexName(s.options.Table), errOtherIndex)
			}
		}
		if err := s.createFunctions(ctx, tx); err != nil {
			return err
		}
		return s.checkSearchPath(ctx, tx)
	})
}

func (s *Store) queryRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) pgx.Row {
	return tx.QueryRow(ctx, sql, withMode(s.unprepared.Load(), args)...)
}

// functionsLock takes an advisory lock for the creation of functions. Without it, two sessions that
// replace a function at the same time would fail.
const functionsLock = "SELECT pg_advisory_xact_lock(x'736c75696365'::bigint)" // "sluice"

// createFunctions creates the missing functions in the schema of the table. It replaces an existing
// function only if its text differs, because only the owner may replace it.
func (s *Store) createFunctions(ctx context.Context, tx pgx.Tx) error {
	_, missing, err := s.missingFunctions(ctx, tx)
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, functionsLock); err != nil {
		return err
	}
	schema, missing, err := s.missingFunctions(ctx, tx) // another process may have created them
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, program.Create(schema, missing...)); err != nil {
		return fmt.Errorf("%w (the functions run the steps of policies; to do without them, set Options.NoFunctions or use sluice serve --no-functions)", err)
	}
	return nil
}

// missingFunctions returns the schema of the table and the functions that are missing there, or have
// another text. After ALTER SCHEMA RENAME, their text still has the old name of the schema.
func (s *Store) missingFunctions(ctx context.Context, tx pgx.Tx) (schema string, missing []program.Function, err error) {
	var existing []string
	err = s.queryRow(ctx, tx, functionsSQL, s.options.qualified(s.options.Table), namesOf(s.allFunctions)).Scan(&schema, &existing)
	if schema == "" { // the table is newer than the snapshot of the transaction
		schema = s.options.Schema
	}
	missing = slices.DeleteFunc(slices.Clone(s.allFunctions), func(f program.Function) bool {
		return slices.Contains(existing, f.Name+f.Source(schema)) || // or it was created by Store.Schema, which does not know the schema:
			s.options.Schema == "" && slices.Contains(existing, f.Name+f.Source(""))
	})
	return schema, missing, err
}

func namesOf(functions []program.Function) (names []string) {
	for _, f := range functions {
		names = append(names, f.Name)
	}
	return names
}

// checkSearchPath returns an error if search_path finds the functions of the statements in another schema
// than the table. They stay there after DROP TABLE and ALTER TABLE SET SCHEMA.
func (s *Store) checkSearchPath(ctx context.Context, tx pgx.Tx) error {
	if s.options.Schema != "" || s.functions == nil {
		return nil
	}
	var hidden string
	called := namesOf(s.allFunctions[len(s.functions.All):])
	err := s.queryRow(ctx, tx, visibleSQL, s.options.qualified(s.options.Table), called).Scan(&hidden)
	if err == nil && hidden != "" {
		err = fmt.Errorf("schema %q: %w", hidden, errHidden)
	}
	return err
}

// visibleSQL selects a schema that is not that of the table, and in which search_path finds functions.
const visibleSQL = `SELECT coalesce(min(n.nspname::text), '') FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE p.proname = ANY($2::text[]) AND pg_function_is_visible(p.oid)
	AND p.pronamespace <> (SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1))`

// functionsSQL selects the schema of the table, and the names and texts of functions in it.
const functionsSQL = `WITH s AS (
	SELECT relnamespace AS id FROM pg_class WHERE oid = to_regclass($1)
)
SELECT coalesce((SELECT nspname::text FROM pg_namespace JOIN s ON oid = id), ''),
	ARRAY(SELECT proname || prosrc FROM pg_proc JOIN s ON pronamespace = id WHERE proname = ANY($2::text[]))`

// tableInfoSQL selects whether the table exists, and whether it has valid and invalid indexes whose
// first column is purge_at.
const tableInfoSQL = `SELECT to_regclass($1) IS NOT NULL, coalesce(bool_or(i.indisvalid), false), coalesce(bool_or(NOT i.indisvalid), false)
FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1) AND a.attname = 'purge_at' AND i.indpred IS NULL`
