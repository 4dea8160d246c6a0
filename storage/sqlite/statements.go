package sqlite

// statements are those of one table. An expired record counts as absent. INDEXED BY makes
// purge fail without the index, because reading the whole table would keep writers out.
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
		purge:   "DELETE FROM " + t + " WHERE key IN (SELECT key FROM " + t + " INDEXED BY " + quote(indexOf(table)) + " WHERE expires_at <= ? LIMIT ?)",
	}
}
