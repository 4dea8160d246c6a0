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
		c, err := s.createTable(ctx, tx)
		if err != nil {
			return err
		}
		return s.createFunctions(ctx, tx, c)
	})
}

// createTable creates the table and its index, and returns what exists then.
func (s *Store) createTable(ctx context.Context, tx pgx.Tx) (c catalog, err error) {
	if c, err = s.readCatalog(ctx, tx); err != nil {
		return c, err
	}
	ddl := "SELECT key, version, state, expires_at, purge_at FROM " + s.options.qualified(s.options.Table) + " LIMIT 0;\n"
	if !c.table {
		ddl = s.tableSchema() + ddl
	}
	if c.invalidIndex && !c.index {
		return c, errInvalidIndex
	}
	if !c.index {
		ddl += s.indexSchema()
	}
	if _, err = tx.Exec(ctx, ddl); err != nil || c.index {
		return c, err
	}
	if c, err = s.readCatalog(ctx, tx); err == nil && !c.index {
		err = fmt.Errorf("the index %q %w", indexName(s.options.Table), errOtherIndex)
	}
	return c, err
}

// functionsLock takes an advisory lock for the creation of functions. Without it, two sessions that
// replace a function at the same time would fail.
const functionsLock = "SELECT pg_advisory_xact_lock(x'736c75696365'::bigint)" // "sluice"

// createFunctions creates the missing functions in the schema of the table. It replaces an existing
// function only if its text differs, because only the owner may replace it.
func (s *Store) createFunctions(ctx context.Context, tx pgx.Tx, c catalog) error {
	if len(s.missingFunctions(c)) > 0 {
		if _, err := tx.Exec(ctx, functionsLock); err != nil {
			return err
		}
		c, err := s.readCatalog(ctx, tx) // another process may have created them
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, program.Create(c.schema, s.missingFunctions(c)...)); err != nil {
			return fmt.Errorf("%w (the functions run the steps of policies; to do without them, set Options.NoFunctions or use sluice serve --no-functions)", err)
		}
	}
	c, err := s.readCatalog(ctx, tx)
	if err == nil && s.options.Schema == "" && c.otherSchema != "" {
		err = fmt.Errorf("schema %q: %w", c.otherSchema, errHidden)
	}
	return err
}

// missingFunctions returns the functions that are missing, or have another text. After ALTER SCHEMA RENAME, their text still has
// the old name of the schema.
func (s *Store) missingFunctions(c catalog) []program.Function {
	return slices.DeleteFunc(slices.Clone(s.allFunctions), func(f program.Function) bool {
		return slices.Contains(c.functions, f.Name+f.Source(c.schema)) || // or it was created by Store.Schema, which does not know the schema:
			s.options.Schema == "" && slices.Contains(c.functions, f.Name+f.Source(""))
	})
}

// catalog is what exists in the database.
type catalog struct {
	table               bool
	index, invalidIndex bool     // valid and invalid indexes whose first column is purge_at
	schema              string   // of the table
	functions           []string // the name and the text of each function in this schema
	otherSchema         string   // a schema in which search_path finds the function of the statements instead
}

func (s *Store) readCatalog(ctx context.Context, tx pgx.Tx) (c catalog, err error) {
	var names []string
	called := "" // the last one
	for _, f := range s.allFunctions {
		names, called = append(names, f.Name), f.Name
	}
	args := withMode(s.unprepared.Load(), []any{s.options.qualified(s.options.Table), names, called})
	err = tx.QueryRow(ctx, catalogSQL, args...).Scan(&c.table, &c.index, &c.invalidIndex, &c.schema, &c.functions, &c.otherSchema)
	if c.schema == "" { // the table is newer than the snapshot of the transaction
		c.schema = s.options.Schema
	}
	return c, err
}

// catalogSQL selects a catalog. Functions stay in their schema after DROP TABLE and ALTER TABLE SET SCHEMA.
const catalogSQL = `WITH s AS (
	SELECT relnamespace AS id FROM pg_class WHERE oid = to_regclass($1)
), i AS (
	SELECT indisvalid AS valid FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
	WHERE indrelid = to_regclass($1) AND attname = 'purge_at' AND indpred IS NULL
)
SELECT to_regclass($1) IS NOT NULL, true IN (SELECT valid FROM i), false IN (SELECT valid FROM i),
	coalesce((SELECT nspname::text FROM pg_namespace JOIN s ON oid = id), ''),
	ARRAY(SELECT proname || prosrc FROM pg_proc JOIN s ON pronamespace = id WHERE proname = ANY($2::text[])),
	coalesce((SELECT min(nspname::text) FROM pg_proc AS p JOIN s ON pronamespace <> s.id JOIN pg_namespace AS n ON n.oid = pronamespace
		WHERE proname = $3::text AND pg_function_is_visible(p.oid)), '')`
