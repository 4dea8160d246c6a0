package sqlite

import (
	"context"
	"fmt"
	"strings"
)

// Schema returns the DDL of the table and its index. You can apply it several times.
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

// Migrate executes [Store.Schema]. Every process can call it at startup. It waits for the write lock for five seconds or
// busy_timeout, whichever is longer. To add the index to an existing table, it reads the whole table under the lock. It fails if
// the table lacks a column.
func (s *Store) Migrate(ctx context.Context) error {
	columns := "SELECT key, version, state, expires_at, purge_at FROM " + quote(s.table) + " LIMIT 0"
	useIndex := "SELECT 1 FROM " + quote(s.table) + " INDEXED BY " + quote(indexOf(s.table)) + " WHERE purge_at IS NOT NULL LIMIT 0"
	return retryBusy(ctx, minWait, func() error {
		return s.withConnection(ctx, func(c *connection) error {
			for _, step := range []struct{ text, failed string }{
				{s.tableSchema(), "creating table %s: %w"}, {columns, "table %s: %w"}, {s.indexSchema(), "creating the index of table %s: %w"},
				{useIndex, "drop the index %s_purge_at, which is on another table or column: %w"},
			} {
				if err := c.execRetryBusy(ctx, step.text); err != nil {
					return fmt.Errorf(step.failed, s.table, err)
				}
			}
			return nil
		})
	})
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// statements holds the SQL statements for one table.
//
// purge_at is never later than the expiry, and NULL if the record never expires. Only create, for a new row, and
// replaceSooner set it, because SQLite then rewrites the index entry, even for the same value. Usually a write expires later
// than the one before, and replace applies.
//
// With INDEXED BY, a purge fails without the index, instead of reading the whole table under the write lock. postpone and
// purge select the same rows, in the order of the index.
type statements struct {
	load, create, replace, replaceSooner, remove, postpone, purge, due, list string
}

func newStatements(table string) statements {
	t := quote(table)
	const live = "(expires_at IS NULL OR expires_at > ?)"
	dueRows := " FROM " + t + " INDEXED BY " + quote(indexOf(table)) + " WHERE purge_at <= ?1"
	due := "key IN (SELECT key" + dueRows + " ORDER BY purge_at, key LIMIT ?2)"
	update := func(set, where string) string {
		return "UPDATE " + t + " SET version = ?1, state = ?2, expires_at = ?3" + set +
			" WHERE key = ?4 AND version = ?5 AND (expires_at IS NULL OR expires_at > ?6)" + where
	}
	return statements{
		load: "SELECT version, state, expires_at FROM " + t + " WHERE key = ? AND " + live,
		create: "INSERT INTO " + t + " AS old (key, version, state, expires_at, purge_at) VALUES (?1, ?2, ?3, ?4, ?4) " +
			"ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at " +
			"WHERE old.expires_at <= ?5",
		replace:       update("", " AND (?3 IS NULL OR purge_at <= ?3)"),
		replaceSooner: update(", purge_at = ?3", ""),
		remove:        "DELETE FROM " + t + " WHERE key = ? AND version = ? AND " + live,
		postpone:      "UPDATE " + t + " SET purge_at = expires_at WHERE " + due + " AND (expires_at IS NULL OR expires_at > ?1)",
		purge:         "DELETE FROM " + t + " WHERE " + due + " AND expires_at <= ?1",
		due:           "SELECT 1" + dueRows + " LIMIT 1",
		list:          "SELECT key, " + live + " FROM " + t + " WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?",
	}
}
