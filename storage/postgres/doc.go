// Package postgres keeps states in a table of a PostgreSQL database that the
// user has already, version 12 or later. It takes a pgxpool.Pool, a pgx.Conn or
// the caller's own pgx.Tx of github.com/jackc/pgx/v5, and never closes it.
//
//	store, err := postgres.New(pool, postgres.Options{})
//	err = store.Migrate(ctx)
//
// # Decisions on the server
//
// [Store.Migrate] creates functions in PL/pgSQL that run the steps of policies. A batch of decisions is then one
// statement and one round trip, whatever other processes do: it locks the rows in the order of
// their keys, reads the clock, decides, and writes what has changed. If another process creates one
// of the keys at the same moment, it takes a second round trip.
//
// The functions are in the schema of the table. Their names begin with sluice_ and end in a hash of
// their text, so processes of different versions can share a table. A role needs the right to
// create functions once for each version, for Migrate, and else only the right to execute them, which
// everybody has by default. After an update, functions with other names than those in
// [Store.Schema] can be dropped when no process of the old version runs any more.
//
// With Options.NoFunctions no functions are created or called. Then the steps run in the process, and a
// decision takes two round trips or more.
//
// # One statement
//
// A swap is one statement, whatever the number of keys: it locks the rows in the
// order of their keys, compares, and writes all or nothing. It takes one round trip, but
// for races, and for the first on a connection, which prepares it.
//
// # In the caller's transaction
//
// A store made on a pgx.Tx, with a limiter of its own, commits or rolls back
// with the work that the limit guards: an order and its quota. The rows it
// compared or wrote stay locked until then, so that others who spend under the same
// keys wait; keep such transactions short, at the isolation level READ COMMITTED,
// and decide in them once. A request with several keys is decided behind a savepoint, in three
// round trips. So are several keys written of which some are created.
//
// Roll the transaction back after an error of the database, which has ended it unless
// there was a savepoint. Such an error wraps the server's, and is neither
// storage.ErrContended nor ErrUnavailable, because only the whole transaction can be
// tried again.
//
// # PgBouncer
//
// Behind PgBouncer in transaction mode, connect with default_query_exec_mode=exec or
// cache_describe, because prepared statements do not follow a session there, unless its
// max_prepared_statements is set (version 1.21 or later). In these modes the server plans
// the statement anew each time, which costs it more than to execute it. With
// simple_protocol, pgx refuses to send the statements unless standard_conforming_strings
// is on and client_encoding UTF8, as they usually are.
//
// What PgBouncer says of its own, such as that query_timeout is over, leaves in doubt
// whether the statement was applied, as a lost connection does: the server may be
// about to do it.
//
// # Expiry
//
// Expired records count as absent at once, by the server's clock_timestamp(), and deleted
// ones are written as expired. Both stay in the table until [Store.Purge] removes them. Call
// it once a minute or so, from one of the processes; the command sluice serve calls it by
// itself. A TTL begins when the statement compares, so before it waits for somebody else who
// creates the key. A record outlives its TTL while its Until ([storage.Swap]) is ahead of the
// server's clock.
//
// A purge finds the records by an index on the column purge_at, which is the expiry that a
// record had when it was created, or an earlier one that it was given since. So a decision
// on a record that is there is a HOT update, which writes no index, unless it brings the
// expiry forward to before purge_at, or the page is full. When purge_at has passed, a purge
// removes the record if it has expired, and otherwise sets purge_at to the expiry. It keeps
// 200 records locked for some milliseconds at a time.
//
// # Durability and known limits
//
// It is that of the database. With synchronous_commit=off, a setting of the
// connection, a crash of the server forgets the decisions of the last moments;
// with Options.Unlogged it forgets all. A failover to an asynchronous replica
// forgets what had not reached it.
//
// A call that waits for the rows of another gets storage.ErrContended shortly before the
// context ends, or when a statement_timeout or lock_timeout of the session is
// over; in a batch of several requests, soon. In the caller's transaction the settings
// of that transaction alone count: set a lock_timeout there, because a context that
// ends while a statement waits closes the connection.
//
// A connection that was left in the middle of a statement, because the server or
// the network was silent, keeps its place in the pool until pgx has closed it,
// which may take 15 s. Where all places are taken so, decisions end with
// storage.ErrUnavailable meanwhile.
package postgres
