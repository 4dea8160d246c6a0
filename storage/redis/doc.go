// Package redis keeps states in Redis 7 or later: one server, a replica set
// behind Sentinel, or a Redis Cluster. It takes any client of
// github.com/redis/go-redis/v9 and never closes it.
//
// # One round trip
//
// A write is one Lua script, whatever the number of keys: it compares the
// version of every key first and writes after, so nothing but all or nothing
// can happen. It does so by GET, MGET, SET, PSETEX, DEL and TIME, which the user of the
// client must be allowed: if the server refuses one of several writes when another has
// been made, the decision fails with storage.ErrOutcomeUnknown. The script is
// sent by its hash, and once more in full when the server does not know it
// (after a restart or SCRIPT FLUSH). The client never sends a write again by
// itself, however it is configured: an applied write whose reply was lost would
// come back as a conflict.
//
// Decisions that travel together share a script, for up to 64 keys, if the client is a
// [redis.Client]; each still applies or fails on its own, except that all fail if the server
// refuses the first write of the script (its memory is full, or the user may not). A
// script costs about as much as what it does for one key. With other clients, with
// [Options.Spread], and after the server has once refused keys because they lie apart or
// are not all allowed, each decision has a script of its own, in a common pipeline.
//
// # Keys
//
// A record is the Redis string PREFIX{GROUP}KEY. Bytes of users stand behind
// our own braces, so theirs choose nothing. In Redis Cluster all keys of one
// decision must lie in one slot, which a common group gives them
// (compose.Options.Group: a tenant, for instance); otherwise the decision fails
// with [ErrCrossSlot]. Keys without a group spread over the cluster by
// themselves, and serve decisions on one key.
//
// # Expiry
//
// The server drops records by itself, at the millisecond after their TTL, or after
// their Until by the server's clock if that is later ([storage.Swap]). There is nothing
// to purge.
//
// # Durability and known limits
//
// What Redis acknowledged it may still lose: what was written after the last
// snapshot or fsync when it crashes, and what had not reached the replica when
// a replica takes over. Use that is lost that way is forgotten: at most what
// was admitted in that time is admitted once more. That time can be seconds if
// the old primary is alive, for it goes on serving until it is told that it was
// replaced; min-replicas-to-write and min-replicas-max-lag bound it. An
// eviction policy other than noeviction drops live records, which forgets their
// use too.
//
// A failover shows as storage.ErrUnavailable until the client knows the new
// primary, and as storage.ErrOutcomeUnknown to those whose write was on its
// way. So does a Redis Cluster that lost a node, to all keys if it has no
// replica, and a slot that is moved to another node, for as long as one key of a
// decision is here and another there. The limiter needs no restart.
//
// A client with ReadOnly, RouteByLatency or RouteRandomly looks at replicas,
// which may be behind; writes are decided by primaries all the same.
//
// A call ends with its context, whatever the client does. go-redis itself goes
// on until its ReadTimeout, and until then a goroutine of the call waits for it
// and the connection stays in use: make the client with ContextTimeoutEnabled,
// so that it ends with the deadline. It dials a server that refuses five times
// over half a second, within one call: who leaves meanwhile cannot know that nothing
// was sent, and is told storage.ErrOutcomeUnknown all through an outage. With
// DialerRetries set to 1 that is storage.ErrUnavailable, because the engine tries
// again by itself. go-redis logs a line for each try, unless its SetLogger says
// otherwise: some twenty a second.
package redis
