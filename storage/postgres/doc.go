// Package postgres stores limits in a table of an existing PostgreSQL database, version 12 or later. It takes a pgxpool.Pool,
// a pgx.Conn or a pgx.Tx of github.com/jackc/pgx/v5, and never closes it.
//
//	store, err := postgres.New(pool, postgres.Options{})
//	err = store.Migrate(ctx)
//
// With a pool, a PL/pgSQL function decides a batch of requests in one round trip. The first statement on a connection needs another
// one. If another process creates a key at the same moment, the server logs the error "sluice: created meanwhile", and the store
// sends the batch again. With a Conn, a Tx or Options.NoFunctions, this process decides in two round trips or more.
//
// # Permissions
//
// Let the owner of the table call [Store.Migrate]. Another role then needs these rights:
//
//	GRANT USAGE ON SCHEMA public TO limiter;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON sluice_states TO limiter;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO limiter;
//
// By default every role has the first and the last. If you have revoked EXECUTE on new functions from PUBLIC, grant it after each
// Migrate that creates functions. Options.NoFunctions needs no EXECUTE.
//
// # Triggers, rules and policies
//
// If a BEFORE trigger, a rule or a row-level security policy drops or changes a written row, the call fails, and a retry does
// not help. Purge fails if it cannot remove an expired record. The store does not notice writes of AFTER triggers, so they
// must not write the table. Records that a policy hides are absent: the store cannot create, reset or purge them.
//
// # In your own transaction
//
// A store on a pgx.Tx charges in that transaction, for instance a quota together with an order. Each transaction needs its
// own store and limiter. Other requests for the same keys wait until it ends, so keep it short, use READ COMMITTED, and make
// only one decision in it. A decision that has several keys and creates one of them takes four round trips, because it needs
// a savepoint.
//
// After an error of the database, roll back and repeat the whole transaction. The error wraps neither [storage.ErrContended] nor
// [storage.ErrUnavailable].
//
// # PgBouncer
//
// PgBouncer in transaction mode supports prepared statements only since version 1.21, and only if max_prepared_statements is above
// 0. Otherwise the server refuses them (42P05, 26000 or 08P01). The store then repeats the statement, and stops preparing
// statements. To do so from the start, connect with default_query_exec_mode=exec. In your own transaction the store cannot repeat a
// statement, so there you need exec or cache_describe. Do not use describe_exec, which may find the statement of another client. In
// statement mode, PgBouncer refuses transactions, so call [Store.Migrate] on a direct connection.
//
// simple_protocol works only if standard_conforming_strings is on and client_encoding is UTF8, which are the defaults.
//
// # Expiry and durability
//
// A record expires by the server's clock_timestamp(). Its TTL starts when the statement has locked the existing rows. Expired
// and deleted records stay in the table until their keys are written again or [Store.Purge] removes them.
//
// A crash of the server loses the last decisions with synchronous_commit=off, and all records with Options.Unlogged. A
// failover to an asynchronous replica loses the decisions that had not reached it.
//
// # Locks and outages
//
// A call that waits for locked rows fails with storage.ErrContended shortly before its context ends, or after the session's
// statement_timeout or lock_timeout. After at most a quarter of a second, a batch goes on without the requests for the locked
// row. The limiter sends these again when the row is free. In your own transaction only its settings apply, and the error is not
// ErrContended. Set a lock_timeout there, because a context that ends during a statement closes the connection.
//
// If the whole table is locked, as by VACUUM FULL, the same holds for decisions by the functions. Other calls fail with
// storage.ErrUnavailable when their context ends, and lose their connection.
//
// If the server is read-only after a failover, a store on a pool closes the connection, so that the pool connects again.
//
// If the server or the network hangs, pgx can take 15 s to close a connection. If that happens to all connections of the
// pool, decisions fail with storage.ErrUnavailable until then.
//
// If Load or CompareAndSwap was planned for a small table, it scans the table until the next ANALYZE, which autovacuum
// usually starts within a minute.
package postgres
