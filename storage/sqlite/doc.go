// Package sqlite keeps states in a table of a SQLite database that the user has
// already. It takes a *sql.DB of github.com/mattn/go-sqlite3, or of a driver around that
// one which wraps its errors, and never closes it.
//
//	db, err := sql.Open("sqlite3", "file:app.db?_journal_mode=WAL&_stmt_cache_size=16")
//	store, err := sqlite.New(db, sqlite.Options{})
//	err = store.Migrate(ctx)
//
// Several processes may share the file: every write takes SQLite's write lock,
// for some tens of microseconds with the settings below, and waits for it as long
// as busy_timeout and the context allow. A write that did not get it returns
// storage.ErrContended, and the limiter tries again.
//
// The policies run in Go, in one transaction ([Store.Transact]) for all callers of a
// limiter who wait at that moment. It reads each key once, writes each key that has changed
// once, and writes nothing if none has. The write lock keeps all others out, so there are
// no conflicts.
//
// # Settings
//
// Limits hold with any settings but _journal_mode=OFF, with which SQLite cannot
// undo the half of a group. These make them fast:
//
//   - _journal_mode=WAL: writes do not wait for those who read, nor, with
//     _synchronous=NORMAL, the driver's default, for the disk, except at a checkpoint
//     now and then. With FULL each write waits for the disk once, and in the
//     rollback journal, SQLite's default, several times with either: both are
//     slower by a factor of ten or more on most disks.
//   - _stmt_cache_size=16: the driver keeps compiled statements, by default none. A
//     swap by itself takes about a quarter less time.
//   - _busy_timeout: 5000 is the driver's default and enough. With 0 a write that
//     finds the database locked fails at once, and the limiter tries again. The
//     package waits by itself, because SQLite does not look at a context while
//     it waits: it polls the lock without sleeping for 200 µs, and then every
//     millisecond or so. Each connection has its own setting again when it is back
//     in the pool. Only when it opens a connection may the driver wait in SQLite, up to
//     busy_timeout whatever the context: let the pool keep enough of them
//     (SetMaxIdleConns).
//   - SetMaxOpenConns: a call takes a connection of the pool. Transactions that follow each
//     other within 10 ms keep theirs for up to 10 ms, unless it is the last. So for that
//     long after db.Close the file may still be open, and a transaction may still be
//     stored.
//   - _txlock does not matter: the package begins its transactions itself, as
//     IMMEDIATE.
//
// # Durability
//
// It is that of the database. In WAL mode with synchronous=NORMAL a commit
// survives the death of the process, and the last ones before a loss of power
// may be forgotten, whole; with synchronous=FULL they are not, at the price of
// an fsync for each write. With _journal_mode=MEMORY or OFF a process that dies
// while it writes may leave the whole database corrupt.
//
// # Expiry
//
// Expired records count as absent at once, by the clock of this process or
// Options.Clock. A record expires when its TTL and its Until ([storage.Swap]) have passed by
// that clock. Expired records stay in the table until their keys are written again or
// [Store.Purge] removes them. Call it once a minute or so, from one of the processes; the
// command sluice serve calls it by itself.
//
// A purge finds the records by an index on the column purge_at, which is the expiry that a
// record had when it was created, or an earlier one that it was given since. So a decision
// on a record that is there does not write the index, unless it brings the expiry forward to
// before purge_at. When purge_at has passed, a purge removes the record if it has expired,
// and otherwise sets purge_at to the expiry. It never holds the write lock for longer than
// 200 records take.
//
// # Known limits
//
// There is one writer at a time in the whole database, whatever it writes, so
// long transactions of other work delay decisions. A database ":memory:" is a
// new one for every connection of the pool: use "file::memory:?cache=shared",
// or SetMaxOpenConns(1); it is gone with its last connection. While a transaction
// of the caller holds the only connection of such a pool, decisions wait for it.
package sqlite
