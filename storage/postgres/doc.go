// Package postgres stores records in a table of an existing PostgreSQL database, version 12 or
// later. It accepts a pgxpool.Pool, a pgx.Conn or a pgx.Tx of github.com/jackc/pgx/v5, and never
// closes it.
//
//	store, err := postgres.New(pool, postgres.Options{})
//	err = store.Migrate(ctx)
//
// # Decisions on the server
//
// [Store.Migrate] creates PL/pgSQL functions that run the steps of policies. So a batch of decisions
// is one statement and one round trip, even if other processes use the same keys. The statement
// locks the rows in the order of their keys, reads the clock, decides, and writes the changed rows.
// If another process creates one of the keys at the same moment, the batch takes a second round
// trip.
//
// The functions are in the schema of the table. Their names begin with sluice_ and end in a hash of
// their text, so processes with different versions of this module can share a table. Migrate needs
// the right to create functions once for each version. Every role may execute them by default.
//
// With Options.NoFunctions, the store neither creates nor calls functions. Then the steps run in the
// process, and a decision takes two round trips or more.
//
// # Swaps
//
// A swap is one statement and one round trip for any number of keys. It takes more round trips if
// another process creates one of its keys at the same moment, and at the first use of a connection,
// because the statement is prepared then.
//
// # In the caller's transaction
//
// A store on a pgx.Tx commits or rolls back with the caller's work, for instance an order and its
// quota. Each transaction needs its own store and limiter. The rows that a decision read or wrote
// stay locked until the transaction ends, so other requests for the same keys wait. Keep such
// transactions short, use the isolation level READ COMMITTED, and make only one decision in each. A
// request with several keys needs a savepoint and takes three round trips. A swap that creates one
// of several keys does, too.
//
// After an error of the database, roll the transaction back. Without a savepoint, the error has
// ended the transaction. The error wraps that of the server. It is neither storage.ErrContended nor
// storage.ErrUnavailable, because only a retry of the whole transaction can succeed.
//
// # PgBouncer
//
// Behind PgBouncer in transaction mode, connect with default_query_exec_mode=exec or
// cache_describe, because prepared statements do not work there. PgBouncer 1.21 or later supports
// them if max_prepared_statements is set. In these modes the server plans the statement each time,
// which takes longer than its execution. With simple_protocol, pgx sends the statements only if
// standard_conforming_strings is on and client_encoding is UTF8, as they are by default.
//
// An error of PgBouncer itself, such as query_timeout, leaves unknown whether the statement was
// applied, like a lost connection. The server may still apply it.
//
// # Expiry
//
// A record counts as absent as soon as it has expired by the server's clock_timestamp(). A deleted
// record is written as expired. Both stay in the table until [Store.Purge] removes them. Call Purge
// about once a minute from one of the processes; the command sluice serve does. A TTL begins when
// the statement compares the versions. If the statement must then wait for another process that
// creates the key, the TTL already runs. A record lives longer than its TTL while its Until
// ([storage.Swap]) is ahead of the server's clock.
//
// Purge finds records by an index on the column purge_at, the earliest expiry that the record has had.
// So a decision on an existing record is normally a heap-only tuple (HOT) update, which writes no
// index. It is not one if the new expiry is before purge_at or if the page is full. Purge locks 200
// records at a time for some milliseconds.
//
// # Durability and limits
//
// Records are as durable as the database. If the server crashes with synchronous_commit=off, the
// decisions of the last moments are lost. With Options.Unlogged, all records are lost. After a
// failover to an asynchronous replica, the decisions that had not reached it are lost.
//
// A call that waits for locked rows fails with storage.ErrContended shortly before its context
// ends, or when the session's statement_timeout or lock_timeout has passed. In a batch of several
// requests, the requests for a locked key fail after a quarter of a second. In the caller's
// transaction only the settings of the transaction apply. Set a lock_timeout there, because a
// context that ends during a statement closes the connection.
//
// If the server or the network stops responding during a statement, the connection stays in the
// pool until pgx has closed it, which can take 15 s. If that happens to all connections, decisions
// fail with storage.ErrUnavailable until then.
package postgres
