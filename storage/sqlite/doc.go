// Package sqlite stores limits in a table of an existing SQLite database. It takes a *sql.DB of github.com/mattn/go-sqlite3 and
// never closes it. A driver around it works if errors.As finds a sqlite3.Error in its errors.
//
//	db, err := sql.Open("sqlite3", "file:app.db?_journal_mode=WAL&_stmt_cache_size=16")
//	store, err := sqlite.New(db, sqlite.Options{})
//	err = store.Migrate(ctx)
//
// Decisions are made in Go, in one transaction for all waiting callers of a limiter. It excludes all other writers. Several
// processes may share the file. A write waits for the lock as long as busy_timeout and the context allow. Then it fails with
// [storage.ErrContended], and the limiter retries.
//
// # Settings
//
// Limits are correct with all settings except _journal_mode=OFF, nolock=1 and vfs=unix-none. _locking_mode=EXCLUSIVE needs
// SetMaxOpenConns(1) and a single process. For speed:
//
//   - _journal_mode=WAL: writes do not wait for readers. With _synchronous=NORMAL, the driver's default, they wait for the disk
//     only at a checkpoint. With FULL, or without WAL, they are usually slower by a factor of ten or more.
//   - _stmt_cache_size=16: without it, a decision takes up to half as long again.
//   - _busy_timeout: the driver's default, 5000, is enough. Opening a connection can wait for all of it, even if the context ends
//     before. So let the pool keep enough connections (SetMaxIdleConns).
//   - SetMaxOpenConns: under load, the store keeps a connection for up to 10 ms, unless it is the pool's last. So for that long
//     after db.Close, the file may stay open, and a transaction may still commit.
//
// # Durability
//
// A commit survives a crash of the process. In WAL mode with synchronous=NORMAL, a power failure may lose the last commits, but
// never a part of a transaction. With FULL it loses none. With _journal_mode=MEMORY or OFF, a process that crashes during a write
// may corrupt the database.
//
// # Expiry
//
// A record expires when its TTL has passed, both by Options.Clock and by the clock of the limiter. It stays in the table until
// its key is written again or [Store.Purge] removes it.
//
// # Known limits
//
// If a BEFORE trigger drops a write, calls and Purge fail. AFTER triggers must not write the table, because the store does not
// notice that.
//
// SQLite has one writer at a time, so other transactions delay decisions. Decide before you begin a write transaction: inside of
// it, a decision fails at its timeout. In WAL mode, a long read transaction lets the log grow, and decisions wait while the next
// write copies it into the database.
//
// Do not delete the file while a process uses it.
//
// Each connection to ":memory:" opens a new database. Use "file::memory:?cache=shared" or SetMaxOpenConns(1), and no
// ConnMaxLifetime or ConnMaxIdleTime, because the database ends with its last connection. If your own transaction holds the only
// connection, decisions wait for it.
package sqlite
