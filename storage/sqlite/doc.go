// Package sqlite stores the states of limits in a table of an existing SQLite database. It takes a
// *sql.DB of the driver github.com/mattn/go-sqlite3, and never closes it. A driver that wraps
// go-sqlite3 also works if errors.As finds a sqlite3.Error in its errors.
//
//	db, err := sql.Open("sqlite3", "file:app.db?_journal_mode=WAL&_stmt_cache_size=16")
//	store, err := sqlite.New(db, sqlite.Options{})
//	err = store.Migrate(ctx)
//
// Several processes may share the file. Every write takes SQLite's write lock for some tens of
// microseconds, with the settings below. A write waits for the lock as long as busy_timeout and the
// context allow. If it does not get the lock, it returns storage.ErrContended, and the limiter retries.
//
// Decisions are made in Go, in a transaction ([Store.Transact]). One transaction serves all callers
// of a limiter that wait at that moment. It reads each key once, writes each changed key once, and
// writes nothing if no key has changed. The write lock excludes all other writers, so there are no
// conflicts.
//
// # Settings
//
// Limits are correct with all settings except _journal_mode=OFF; for crashes see Durability. With
// OFF, SQLite cannot roll back a transaction. For fast limits, note these settings:
//
//   - _journal_mode=WAL: writes do not wait for readers. With _synchronous=NORMAL, the driver's
//     default, writes wait for the disk only at a checkpoint. With _synchronous=FULL each write waits
//     for the disk once, and with the rollback journal, SQLite's default, several times. On most
//     disks, both are slower by a factor of ten or more.
//   - _stmt_cache_size=16: the driver keeps compiled statements, by default none. Without it, a decision
//     takes up to half as long again. Older versions of the driver do not have this setting.
//   - _busy_timeout: 5000, the driver's default, is enough. With 0, a write fails at once if the
//     database is locked, and the limiter retries. Nobody retries Migrate and Purge, so they wait for at
//     least 5 seconds. SQLite ignores the context while it waits for a
//     lock. So this package sets busy_timeout to 0 while it uses a connection, and polls the lock itself
//     for as long as your busy_timeout: for 200 µs without sleeping, and then about every millisecond.
//     Your setting is back when the connection goes back to the pool. Opening a connection can wait for
//     the whole busy_timeout, even if the context ends before. So let the pool keep enough connections
//     (SetMaxIdleConns).
//   - SetMaxOpenConns: each call takes a connection of the pool. If a call follows another within
//     10 ms, the store keeps its connection for the next calls, but for no more than 10 ms in all, and
//     not if all connections of the pool are in use. So for up to 10 ms after db.Close the file may
//     stay open, and a running transaction may still commit.
//
// _txlock has no effect: this package begins its transactions with BEGIN IMMEDIATE.
//
// # Durability
//
// A commit survives a crash of the process. In WAL mode with synchronous=NORMAL, a power failure may
// lose the last commits, but never a part of a transaction. With synchronous=FULL no commit is lost. With
// _journal_mode=MEMORY or OFF, a process that crashes during a write may corrupt the database.
//
// # Expiry
//
// A record expires when, by Options.Clock, both its TTL and its Until ([storage.Swap]) have passed.
// Expired records count as absent at once. They stay in the table until their keys are written again or
// [Store.Purge] removes them. Call Purge about once a minute from one of the processes. The command
// "sluice serve" does this.
//
// Purge uses an index on the column purge_at, the earliest time at which Purge checks the record. It is
// the expiry or earlier. A write to an existing record changes purge_at and the index only if the new
// expiry is before purge_at. Purge handles at most 200 records while it holds the write lock.
//
// # Triggers
//
// If a trigger drops a write or changes a record that was written, the call fails, and a retry does not
// help. Purge then fails, too.
//
// # Known limits
//
// A SQLite database has one writer at a time, so long transactions of other work delay decisions. In WAL
// mode, the log grows during a long read transaction. After it has ended, the next write copies the whole
// log into the database. Decisions wait for that too, at most until their timeout.
//
// Each connection to ":memory:" opens a new database. Use "file::memory:?cache=shared" or
// SetMaxOpenConns(1). Such a database is lost when its last connection closes. If a transaction
// of the caller holds the only connection of the pool, decisions wait for it.
package sqlite
