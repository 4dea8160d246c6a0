// Package sqlite stores limits in a table of an existing SQLite database. It takes a *sql.DB of github.com/mattn/go-sqlite3
// and never closes it. A driver that wraps go-sqlite3 works if errors.As finds a sqlite3.Error in its errors.
//
//	db, err := sql.Open("sqlite3", "file:app.db?_journal_mode=WAL&_stmt_cache_size=16")
//	store, err := sqlite.New(db, sqlite.Options{})
//	err = store.Migrate(ctx)
//
// Decisions are made in Go, in one transaction for all waiting callers of a limiter. It excludes all other writers, so there are no
// conflicts. Several processes may share the file. A write waits for the lock as long as busy_timeout and the context allow. Then it
// fails with storage.ErrContended, and the limiter retries.
//
// # Settings
//
// Limits are correct with all settings except _journal_mode=OFF, with which SQLite cannot roll back, and nolock=1 and
// vfs=unix-none, with which it locks nothing. _locking_mode=EXCLUSIVE needs SetMaxOpenConns(1) and a single process. For speed:
//
//   - _journal_mode=WAL: writes do not wait for readers. With _synchronous=NORMAL, the driver's default, they wait for the
//     disk only at a checkpoint. With FULL, each write waits once, and without WAL several times. On most disks, both are
//     slower by a factor of ten or more.
//   - _stmt_cache_size=16: without it, a decision takes up to half as long again.
//   - _busy_timeout: the driver's default, 5000, is enough. With 0, a write fails at once if the database is locked, and
//     the limiter retries. Opening a connection can wait for the whole busy_timeout, even if the context ends before.
//     So let the pool keep enough connections (SetMaxIdleConns).
//   - SetMaxOpenConns: under load, the store keeps a connection for up to 10 ms, unless it is the last one of the pool.
//     So for up to 10 ms after db.Close, the file may stay open, and a running transaction may still commit.
//
// # Durability
//
// A commit survives a crash of the process. In WAL mode with synchronous=NORMAL, a power failure may lose the last commits,
// but never a part of a transaction. With FULL it loses none. With _journal_mode=MEMORY or OFF, a process that crashes during
// a write may corrupt the database.
//
// # Expiry
//
// A record expires when its TTL has passed, both by Options.Clock and by the clock of the limiter. It stays in the table until its
// key is written again or [Store.Purge] removes it.
//
// # Known limits
//
// If a BEFORE trigger drops a write, the call fails, and a retry does not help. Purge fails if it cannot remove an expired
// record. The store does not notice writes of AFTER triggers, so they must not write the table.
//
// SQLite has one writer at a time, so transactions of other work delay decisions. A decision inside your own write transaction fails
// at its timeout, so decide before you begin. In WAL mode, the log grows during a long read transaction. The next write after it
// copies the whole log into the database, and decisions wait for that.
//
// Do not delete the file while a process uses it.
//
// Each connection to ":memory:" opens a new database. Use "file::memory:?cache=shared" or SetMaxOpenConns(1), and no ConnMaxLifetime
// or ConnMaxIdleTime, because the database ends with its last connection. If your own transaction holds the
// only connection, decisions wait for it.
package sqlite
