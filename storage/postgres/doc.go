// Package postgres stores limits in a table of an existing PostgreSQL database, version 12 or later. It takes a [pgxpool.Pool], a
// [pgx.Conn] or a [pgx.Tx] of github.com/jackc/pgx/v5, and never closes it.
//
//	store, err := postgres.New(pool, postgres.Options{})
//	err = store.Migrate(ctx)
//
// With a pool, a PL/pgSQL function decides a batch of requests in one round trip. If the server logs the error "sluice: created
// meanwhile", the store sends the batch again. With a Conn, a Tx or Options.NoFunctions, this process decides in two round trips
// or more.
//
// # Permissions
//
// Let the owner of the table call [Store.Migrate]. Another role then needs these rights:
//
//	GRANT USAGE ON SCHEMA public TO limiter;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON sluice_states TO limiter;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO limiter;
//
// By default every role has the first and the last. If you have revoked EXECUTE from PUBLIC, grant it after each Migrate that
// creates functions. Options.NoFunctions needs no EXECUTE.
//
// # Triggers, rules and policies
//
// If a BEFORE trigger, a rule or a row-level security policy drops or changes a written row, calls and Purge fail. AFTER triggers
// must not write the table, because the store does not notice that. It cannot create, reset or purge records that a policy hides.
//
// # In your own transaction
//
// A store on a [pgx.Tx] charges in that transaction, for instance a quota together with an order. Each transaction needs its own
// store and limiter. Others wait for its keys until it ends, so keep it short, use READ COMMITTED, and make only one decision in
// it. Set a lock_timeout, because a context that ends during a statement closes the connection. After an error of the database,
// roll back and repeat all of it. The error wraps neither [storage.ErrContended] nor [storage.ErrUnavailable].
//
// # PgBouncer
//
// In transaction mode, PgBouncer supports prepared statements since version 1.21, if max_prepared_statements is above 0.
// Otherwise the store repeats a refused statement (42P05, 26000 or 08P01), and prepares no more. To avoid that, connect with
// default_query_exec_mode=exec. Your own transaction needs exec or cache_describe. Do not use describe_exec, which may find the
// statement of another client. In statement mode, call [Store.Migrate] on a direct connection.
//
// simple_protocol needs standard_conforming_strings=on and client_encoding=UTF8, the defaults.
//
// # Expiry and durability
//
// A record expires by the server's clock_timestamp(). Expired and deleted records stay in the table until their keys are written
// again or [Store.Purge] removes them.
//
// A crash of the server loses the last decisions with synchronous_commit=off, and all records with Options.Unlogged. A failover
// loses what an asynchronous replica did not have yet.
//
// # Locks and outages
//
// A call that waits for locked rows fails with [storage.ErrContended] shortly before its context ends, or after the session's
// statement_timeout or lock_timeout. If the whole table is locked, as by VACUUM FULL, so do decisions by the functions. Other
// calls then fail with [storage.ErrUnavailable] when their context ends, and lose their connection.
//
// If the server is read-only after a failover, a store on a pool closes the connection, so that the pool connects again. If the
// network hangs, pgx can take 15 s to close a connection. If all connections of the pool hang, decisions fail with
// [storage.ErrUnavailable] until then.
//
// When a small table grows, Load and CompareAndSwap may scan it until the next ANALYZE, which autovacuum usually starts within a
// minute.
package postgres
