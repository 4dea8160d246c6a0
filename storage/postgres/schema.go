package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (o Options) name() string { return o.qualified(o.Table) }

// qualified is a name in the schema of the options.
func (o Options) qualified(name string) string {
	if o.Schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{o.Schema, name}.Sanitize()
}

// Schema is the DDL of the store's table, of the index on purge_at by which
// [Store.Purge] finds expired records, and of the functions by which [Store.Run] decides. They are created in
// the schema named in Options, which must exist, or else in the first one of search_path that
// does. It may be applied again.
func (s *Store) Schema() string {
	return s.tableSchema() + s.indexSchema() + s.functionSchema(s.options.Schema, s.functionNames())
}

// functionNames are the names of all functions.
func (s *Store) functionNames() []string {
	if s.functions == nil {
		return nil
	}
	return append(s.functions.Names(), s.options.oneFunction(s.functions))
}

// functionSchema is the DDL of the functions with these names.
func (s *Store) functionSchema(schema string, names []string) string {
	if s.functions == nil {
		return ""
	}
	o := s.options
	o.Schema = schema
	text := s.functions.Create(schema, names...)
	if slices.Contains(names, o.oneFunction(s.functions)) {
		text += o.createOne(s.functions)
	}
	return text
}

func (s *Store) tableSchema() string {
	kind := "TABLE"
	if s.options.Unlogged {
		kind = "UNLOGGED TABLE"
	}
	return fmt.Sprintf(`CREATE %s IF NOT EXISTS %s (
	key        bytea       NOT NULL PRIMARY KEY,
	version    bigint      NOT NULL, -- drawn at random for every write
	state      bytea       NOT NULL,
	expires_at timestamptz NOT NULL, -- infinity: never
	purge_at   timestamptz NOT NULL  -- when a purge looks at the record: not after expires_at
) WITH (fillfactor = 70); -- room for updates in place
`, kind, s.options.name())
}

func (s *Store) indexSchema() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (purge_at);\n", pgx.Identifier{indexOf(s.options.Table)}.Sanitize(), s.options.name())
}

// indexOf is the name of the index of a table. PostgreSQL would cut a long name, maybe to
// that of the table itself.
func indexOf(table string) string {
	const suffix = "_purge_at"
	if len(table)+len(suffix) <= longestName {
		return table + suffix
	}
	hash := sha256.Sum256([]byte(table))
	distinct := fmt.Sprintf("_%x", hash[:8])
	return strings.ToValidUTF8(table[:longestName-len(distinct)-len(suffix)], "") + distinct + suffix
}

// Migrate applies what is missing of [Store.Schema]: the table, unless it is found in any
// schema of search_path, and then the index and the functions in the schema of the table. If all
// are there, nothing is changed, so that this needs no right to create anything, and the session
// may be read-only.
//
// The functions of other versions of this module have other names, and stay. Those that no process
// uses any more may be dropped. Creating the index of
// a large table keeps writers out for some time; CREATE INDEX CONCURRENTLY, before Migrate,
// does not. Migrate refuses a table with other columns. Several processes may call it at once,
// also in a transaction of the caller, which goes on whether Migrate fails or not. Errors are
// those of a [storage.Store].
func (s *Store) Migrate(ctx context.Context) error {
	err := s.create(ctx)
	if isThere(err) { // another one was first
		err = s.create(ctx)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("creating table %s: %w", s.options.name(), err)
	if s.inside() { // it is not for a part of the transaction to be tried again
		return fmt.Errorf("postgres: %w", advised(err))
	}
	return failure(err)
}

// create is a transaction, or a savepoint of the caller's: a statement that
// fails must not end theirs.
func (s *Store) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var table, index, invalid bool
		if err := tx.QueryRow(ctx, thereSQL, s.options.name()).Scan(&table, &index, &invalid); err != nil {
			return err
		}
		if !table {
			if _, err := tx.Exec(ctx, s.tableSchema()); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "SELECT key, version, state, expires_at, purge_at FROM "+s.options.name()+" LIMIT 0"); err != nil {
			return err
		}
		switch {
		case index:
		case invalid:
			return errors.New("the index on purge_at is not valid, because creating it concurrently failed or has not ended: wait, or drop it and call Store.Migrate again")
		default:
			if _, err := tx.Exec(ctx, s.indexSchema()); err != nil {
				return err
			}
		}
		return s.createFunctions(ctx, tx)
	})
}

// functionsLock is the advisory lock of who creates functions: two who replace one at the same
// moment would fail.
const functionsLock = 0x736c75696365 // "sluice"

// createFunctions creates the functions that are missing in the schema of the table. Those that are there may
// be another role's, who alone may replace them.
func (s *Store) createFunctions(ctx context.Context, tx pgx.Tx) error {
	if s.functions == nil {
		return nil
	}
	_, missing, err := s.missingFunctions(ctx, tx)
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", functionsLock)); err != nil {
		return err
	}
	schema, missing, err := s.missingFunctions(ctx, tx) // another process may have created them
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, s.functionSchema(schema, missing)); err != nil {
		return fmt.Errorf("%w (the functions run the steps of policies; with Options.NoFunctions, or sluice serve --no-functions, none are needed)", err)
	}
	return nil
}

// missingFunctions returns the schema of the table, and the names of the functions that are missing in it.
func (s *Store) missingFunctions(ctx context.Context, tx pgx.Tx) (schema string, missing []string, err error) {
	err = tx.QueryRow(ctx, functionsSQL, s.options.name(), s.functionNames()).Scan(&schema, &missing)
	if schema == "" { // the table is newer than the snapshot of the transaction
		schema = s.options.Schema
	}
	return schema, missing, err
}

// functionsSQL returns the schema of the table, and the names of the functions that are not in it.
const functionsSQL = `WITH s AS (
	SELECT relnamespace AS id FROM pg_class WHERE oid = to_regclass($1)
)
SELECT coalesce((SELECT nspname::text FROM pg_namespace JOIN s ON oid = id), ''),
	ARRAY(SELECT name FROM unnest($2::text[]) AS f (name) WHERE name NOT IN (SELECT proname::text FROM pg_proc JOIN s ON pronamespace = id))`

// thereSQL returns whether there is a table, and whether it has an index that begins with
// purge_at, one that is valid and one that is not.
const thereSQL = `SELECT to_regclass($1) IS NOT NULL, coalesce(bool_or(i.indisvalid), false), coalesce(bool_or(NOT i.indisvalid), false)
FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1) AND a.attname = 'purge_at' AND i.indpred IS NULL`

// isThere is true for a table or index that another has created meanwhile: duplicate_table,
// duplicate_object (its type) or, at the same moment, unique_violation in the catalog.
func isThere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P07" || e.Code == "42710" || e.Code == "23505")
}
