package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (o Options) name() string {
	if o.Schema == "" {
		return pgx.Identifier{o.Table}.Sanitize()
	}
	return pgx.Identifier{o.Schema, o.Table}.Sanitize()
}

// Schema is the DDL of the store's table, in the schema named in Options, which
// must exist, or else in the first one of search_path that does. It does nothing
// where that schema has the table.
func (s *Store) Schema() string {
	kind := "TABLE"
	if s.options.Unlogged {
		kind = "UNLOGGED TABLE"
	}
	return fmt.Sprintf(`CREATE %s IF NOT EXISTS %s (
	key        bytea       NOT NULL PRIMARY KEY,
	version    bigint      NOT NULL, -- drawn at random for every write
	state      bytea       NOT NULL,
	expires_at timestamptz NOT NULL  -- infinity: never
) WITH (fillfactor = 70); -- room for updates in place
`, kind, s.options.name())
}

// Migrate applies [Store.Schema] if the table is not found, be it in a later schema
// of search_path. Where it is found, nothing is changed, so that this needs no right
// to create tables, and the session may be read-only. Several processes may do so at
// once, also in a transaction of the caller, which goes on whatever becomes of this.
// Errors are those of a [storage.Store].
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
		return fmt.Errorf("postgres: %w", err)
	}
	return failure(err)
}

// create is a transaction, or a savepoint of the caller's: a statement that
// fails must not end theirs.
func (s *Store) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var found bool
		err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.options.name()).Scan(&found)
		if err == nil && !found {
			_, err = tx.Exec(ctx, s.Schema())
		}
		return err
	})
}

// isThere is true for a table that another has created meanwhile: duplicate_table,
// duplicate_object (its type) or, at the same moment, unique_violation in the catalog.
func isThere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P07" || e.Code == "42710" || e.Code == "23505")
}
