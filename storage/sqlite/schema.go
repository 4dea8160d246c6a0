package sqlite

import (
	"context"
	"fmt"
	"strings"
)

// Schema is the DDL of the store's table and of the index on purge_at by which
// [Store.Purge] finds expired records. It does nothing where both are there.
func (s *Store) Schema() string { return s.tableSchema() + s.indexSchema() }

func (s *Store) tableSchema() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	key        BLOB    NOT NULL PRIMARY KEY,
	version    INTEGER NOT NULL, -- drawn at random for every write
	state      BLOB    NOT NULL,
	expires_at INTEGER,          -- ns since 1970; NULL: never
	purge_at   INTEGER           -- when a purge looks at the record: not after expires_at; NULL: never
) STRICT, WITHOUT ROWID;
`, quote(s.table))
}

func (s *Store) indexSchema() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (purge_at) WHERE purge_at IS NOT NULL;\n", quote(indexOf(s.table)), quote(s.table))
}

func indexOf(table string) string { return table + "_purge_at" }

// Migrate applies [Store.Schema]. It adds the index to a table that has none; this reads
// the whole table while it holds the write lock. It refuses a table with other columns.
func (s *Store) Migrate(ctx context.Context) error {
	return s.lend(ctx, func(c *connection) error {
		return c.raw(func() error { return failure(s.migrate(ctx, c)) })
	})
}

func (s *Store) migrate(ctx context.Context, c *connection) error {
	if err := c.execRetryBusy(ctx, s.tableSchema()); err != nil {
		return fmt.Errorf("creating table %s: %w", s.table, err)
	}
	err := c.execRetryBusy(ctx, "SELECT key, version, state, expires_at, purge_at FROM "+quote(s.table)+" LIMIT 0")
	if err != nil {
		return fmt.Errorf("table %s: %w", s.table, err)
	}
	if err := c.execRetryBusy(ctx, s.indexSchema()); err != nil {
		return fmt.Errorf("creating the index of table %s: %w", s.table, err)
	}
	return nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
