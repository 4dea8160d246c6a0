// Package postgres stores records in a table of an existing PostgreSQL database, version 12 or
// later. It accepts a pgxpool.Pool, a pgx.Conn or a pgx.Tx of github.com/jackc/pgx/v5, and never
// closes it.
//
//	store, err := postgres.New(pool, postgres.Options{})
//	err = store.Migrate(ctx)
//
// # Decisions on the server
//
// [Store.Migrate] creates a PL/pgSQL function that decides requests, and one for each algorithm, which it
// calls. So a batch of decisions is one statement and one round trip, even if other processes use the same
// keys. The function locks the rows in the order of their keys, reads the clock, decides, and writes the
// changed rows. A batch takes more round trips in two cases:
//
//   - Another process creates one of its keys at the same moment. The log of the server then has the error
//     "sluice: created meanwhile", and the store sends the batch again.
//   - The connection is used for the first time, so the statement is prepared.
//
// [Store.CompareAndSwap] is also one statement for any number of keys. It takes more round trips in the
// same cases, and in the caller's transaction if it has several keys and creates one of them.
//
// If the DB is a pgx.Conn or a pgx.Tx, the store does not call the functions, because only the goroutine of
// the caller may use it. Decisions are then made as with Options.NoFunctions.
//
// The functions are in the schema of the table. Their names begin with sluice_ and end in a hash of
// their text without the name of the schema, so processes with different versions of this module can
// share a table. Migrate needs the right to create functions once for each version.
//
// The functions look up rows by the primary key, and never scan the table. Load and CompareAndSwap
// use the plan that the server prefers: if a connection plans them after an ANALYZE of a table with
// few rows, they scan the table, even if it has grown, until the next ANALYZE. Autovacuum usually
// starts it within a minute.
//
// With Options.NoFunctions, the store neither creates nor calls functions. Then this process
// decides: one statement reads the records and the time, and CompareAndSwap writes. So a decision takes
// two round trips or more.
//
// # Triggers, rules and policies
//
// The statements check that each row is stored as they wrote it. If a BEFORE trigger, a rule or a
// row-level security policy drops or changes a row, the call fails, and a retry does not help. Purge
// fails if it could not remove an expired record. The statements do not see what an AFTER trigger does,
// so an AFTER trigger must not write the table. Records that a policy hides from the role of the
// store are absent for the store. It cannot create them, and Reset and Purge do not remove them.
//
// # Permissions
//
// Let the owner of the table call Migrate. Another role, such as that of "sluice serve", then needs these
// rights, in the schema of the table:
//
//	GRANT USAGE ON SCHEMA public TO limiter;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON sluice_states TO limiter;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO limiter;
//
// By default every role has the first right, and may execute new functions. If you have revoked EXECUTE on
// new functions from PUBLIC, grant it after each Migrate that creates functions. Otherwise decisions fail
// with "permission denied for function". With Options.NoFunctions the last right is not needed.
//
// # In the caller's transaction
//
// A store on a pgx.Tx decides in the caller's transaction, for instance to charge a quota together
// with an order. The charge is committed or rolled back with the other work of the transaction.
// Each transaction needs its own store and limiter. The rows that a decision wrote stay
// locked until the transaction ends, so other requests for the same keys wait. Keep such
// transactions short, use the isolation level READ COMMITTED, and make only one decision in each. A
// decision takes two round trips. If it has several keys and creates one of them, it takes four, because it
// needs a savepoint.
//
// After an error of the database, roll the transaction back. To retry, repeat all of it. The
// returned error wraps the error of the server, but neither storage.ErrContended nor
// storage.ErrUnavailable, because a retry of the decision alone cannot succeed.
//
// # PgBouncer
//
// PgBouncer in transaction mode supports prepared statements only since version 1.21, and only if
// max_prepared_statements is above 0. Otherwise the server refuses a prepared statement with the code
// 42P05, 26000 or 08P01. The store then sends the statement again without preparing it, and prepares
// no statement any more. To do so from the start, connect with default_query_exec_mode=exec in the
// connection string. A store in the caller's transaction cannot send a statement again, because the
// error has ended the transaction. So connect with default_query_exec_mode=exec or cache_describe
// there. Do not use describe_exec, which may find the unnamed statement of another client.
//
// Without prepared statements the server plans the statements of Load and CompareAndSwap each time,
// which takes longer than their execution. With simple_protocol, pgx sends the statements only if
// standard_conforming_strings is on and client_encoding is UTF8, as they are by default.
//
// After an error of PgBouncer itself, such as query_timeout, it is unknown whether the statement
// was applied, as after a lost connection. The server may still apply it.
//
// # Expiry
//
// A record counts as absent as soon as it has expired by the server's clock_timestamp(). Expired and
// deleted records stay in the table until their keys are written again or [Store.Purge] removes them.
// Call Purge about once a minute from one of the processes. The command "sluice serve" does this.
//
// A TTL starts when the statement has locked the existing rows, even if the statement then waits for
// another process that creates a key. A record lives longer than its TTL while its Until
// ([storage.Swap]) is ahead of the server's clock.
//
// Purge finds records by an index on the column purge_at, the earliest time at which Purge checks the
// record. It is the expiry or earlier. A decision on an existing record usually keeps purge_at. Then it
// is a heap-only tuple (HOT) update, which writes no index, unless the page is full. Purge locks 200
// records at a time for some milliseconds.
//
// # Durability and limits
//
// Records are as durable as the database. A crash of the server loses the decisions of the last moments
// with synchronous_commit=off, and all records with Options.Unlogged. A failover to an asynchronous
// replica loses the decisions that had not reached it.
//
// A call that waits for locked rows fails with storage.ErrContended shortly before its context
// ends, or when the session's statement_timeout or lock_timeout has passed. If a batch waits for a locked row for
// more than a quarter of a second, its requests for other keys are decided without it. The limiter then decides the requests for
// that key by Load and CompareAndSwap, one at a time, until one succeeds. In the caller's transaction only the settings of the transaction apply, and the error is not
// ErrContended. Set a lock_timeout there, because a context that ends during a statement closes the
// connection.
//
// If the whole table is locked, as by VACUUM FULL, decisions by the functions fail in the same way.
// A CompareAndSwap, a Load or a Peek, and so a decision with Options.NoFunctions, fails with
// storage.ErrUnavailable when its context ends, and the connection is closed.
//
// If the server or the network stops responding during a statement, the connection stays in the
// pool until pgx has closed it, which can take 15 s. If that happens to all connections, decisions
// fail with storage.ErrUnavailable until then.
package postgres
