package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Schema is the DDL of the store's table and of the index by which [Store.Purge] finds
// expired records. It does nothing where both are there.
func (s *Store) Schema() string { return s.tableSchema() + s.indexSchema() }

func (s *Store) tableSchema() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	key        BLOB    NOT NULL PRIMARY KEY,
	version    INTEGER NOT NULL, -- drawn at random for every write
	state      BLOB    NOT NULL,
	expires_at INTEGER           -- ns since 1970; NULL: never
) STRICT, WITHOUT ROWID;
`, quote(s.table))
}

func (s *Store) indexSchema() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (expires_at);\n", quote(indexOf(s.table)), quote(s.table))
}

func indexOf(table string) string { return table + "_expires_at" }

// Migrate applies [Store.Schema]. It adds the index to a table that has none; this reads
// the whole table while it holds the write lock.
func (s *Store) Migrate(ctx context.Context) error {
	return s.connect(ctx, func(c *connection) error {
		if err := c.insist(ctx, s.tableSchema()); err != nil {
			return failure(fmt.Errorf("creating table %s: %w", s.table, err))
		}
		err := c.insist(ctx, "SELECT key, version, state, expires_at FROM "+quote(s.table)+" LIMIT 0")
		var e sqlite3.Error
		if errors.As(err, &e) && e.Code == sqlite3.ErrError { // no such column
			err = fmt.Errorf("table %s is there, and is no store's; name another in Options.Table: %w", s.table, err)
		}
		if err != nil {
			return failure(err)
		}
		if err := c.insist(ctx, s.indexSchema()); err != nil {
			return failure(fmt.Errorf("creating the index of table %s: %w", s.table, err))
		}
		return nil
	})
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
