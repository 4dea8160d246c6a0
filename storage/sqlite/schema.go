package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Schema is the DDL of the store's table. It does nothing where the table is
// there.
func (s *Store) Schema() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	key        BLOB    NOT NULL PRIMARY KEY,
	version    INTEGER NOT NULL, -- drawn at random for every write
	state      BLOB    NOT NULL,
	expires_at INTEGER           -- ns since 1970; NULL: never
) STRICT, WITHOUT ROWID;
`, quote(s.table))
}

// Migrate applies [Store.Schema].
func (s *Store) Migrate(ctx context.Context) error {
	return s.connect(ctx, func(c *connection) error {
		if err := c.insist(ctx, s.Schema()); err != nil {
			return failure(fmt.Errorf("creating table %s: %w", s.table, err))
		}
		err := c.insist(ctx, "SELECT key, version, state, expires_at FROM "+quote(s.table)+" LIMIT 0")
		var e sqlite3.Error
		if errors.As(err, &e) && e.Code == sqlite3.ErrError { // no such column
			err = fmt.Errorf("table %s is there, and is no store's; name another in Options.Table: %w", s.table, err)
		}
		return failure(err)
	})
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
