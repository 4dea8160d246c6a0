package sqlite

import (
	"context"
	"fmt"
	"strings"
)

// Schema returns the DDL of the store's table and of the index that [Store.Purge] uses. The DDL has no
// effect if both exist.
func (s *Store) Schema() string { return s.tableSchema() + s.indexSchema() }

func (s *Store) tableSchema() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	key        BLOB    NOT NULL PRIMARY KEY,
	version    INTEGER NOT NULL, -- random for every write
	state      BLOB    NOT NULL,
	expires_at INTEGER,          -- ns since 1970; NULL: never
	purge_at   INTEGER           -- when a purge checks the record: at expires_at or earlier; NULL: never
) STRICT, WITHOUT ROWID;
`, quote(s.table))
}

func (s *Store) indexSchema() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (purge_at) WHERE purge_at IS NOT NULL;\n", quote(indexOf(s.table)), quote(s.table))
}

func indexOf(table string) string { return table + "_purge_at" }

// Migrate executes [Store.Schema]. If the table exists without the index, Migrate adds the index: it
// reads the whole table while it holds the write lock. If the table lacks a column, Migrate returns an
// error.
func (s *Store) Migrate(ctx context.Context) error {
	columns := "SELECT key, version, state, expires_at, purge_at FROM " + quote(s.table) + " LIMIT 0"
	return s.withConnection(ctx, func(c *connection) error {
		for _, step := range []struct{ text, failed string }{
			{s.tableSchema(), "creating table %s: %w"}, {columns, "table %s: %w"}, {s.indexSchema(), "creating the index of table %s: %w"},
		} {
			if err := c.execRetryBusy(ctx, step.text); err != nil {
				return fmt.Errorf(step.failed, s.table, err)
			}
		}
		return nil
	})
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
