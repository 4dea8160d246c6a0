package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/storage"
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
	conn, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := conn.insist(ctx, s.Schema()); err != nil {
		return failure(fmt.Errorf("creating table %s: %w", s.table, err))
	}
	return nil
}

// Purge removes up to max expired records; see [storage.Purger].
func (s *Store) Purge(ctx context.Context, max int) (int, error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	conn, release, err := s.connection(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var n int64
	err = conn.patiently(ctx, func(ctx context.Context) error {
		r, err := conn.ExecContext(ctx, s.sql.purge, s.now(), max)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, failure(err)
	}
	return int(n), nil
}

var _ storage.Purger = (*Store)(nil)

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// statements are those of one table. An expired record counts as absent.
type statements struct {
	load, create, replace, remove, purge string
}

func newStatements(table string) statements {
	t := quote(table)
	const live = "(expires_at IS NULL OR expires_at > ?)"
	return statements{
		load: "SELECT version, state FROM " + t + " WHERE key = ? AND " + live,
		create: "INSERT INTO " + t + " AS old (key, version, state, expires_at) VALUES (?, ?, ?, ?) " +
			"ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at " +
			"WHERE old.expires_at <= ?",
		replace: "UPDATE " + t + " SET version = ?, state = ?, expires_at = ? WHERE key = ? AND version = ? AND " + live,
		remove:  "DELETE FROM " + t + " WHERE key = ? AND version = ? AND " + live,
		purge: "DELETE FROM " + t + " WHERE key IN (SELECT key FROM " + t +
			" WHERE expires_at <= ?1 LIMIT ?2) AND expires_at <= ?1",
	}
}
