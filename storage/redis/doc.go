// Package redis stores records in Redis 7 or later: in one server, in a primary with replicas
// behind Sentinel, in a Redis Cluster, or in the servers of a redis.Ring. It accepts any client of
// github.com/redis/go-redis/v9 and never closes it.
//
// # One round trip
//
// A batch of requests is one Lua script, which decides them on the server ([Store.Run]). The time of
// the decisions is the time of the batch, or that of the server's clock if the batch has none. Redis
// runs a script atomically. A script of 64 requests takes the server 0.1 to 0.2 ms. A policy without a
// program in Lua (see algo.Portable) takes two round trips: the script of the batch then only reads the
// records and the time, and [Store.CompareAndSwap], which is also a script, writes.
//
// The store sends a script by its hash. If the server does not know the script, for instance after
// a restart, the store sends it again in full. The store prevents
// go-redis from retrying a write, whatever MaxRetries of the client is, because only the limiter can
// find out whether the first attempt was applied.
//
// # Permissions
//
// The user of the client needs these commands on all keys with the prefix:
//
//	ACL SETUSER limiter on >password ~sluice:* +get +mget +set +psetex +pttl +del +time +eval +evalsha
//
// The command "sluice serve" needs no others.
//
// In a Redis Cluster, add +cluster, +asking and +command, and also +readonly if the client reads from
// replicas. Without +command, go-redis sends COMMAND to a node again before each call, which then
// takes longer and can miss its deadline. With Sentinel, the sentinels have their own users: see
// SentinelUsername of go-redis.
//
// Some options of the client need further commands: +select for DB, +client|setname for ClientName,
// and +ping for RouteByLatency. A redis.Ring needs +ping, too. Without it, the Ring regards all its
// servers as down after a few heartbeats.
//
// If the server does not run a script because the user has no permission for one of its keys, the
// limiter retries each request of the batch separately. If it runs the script and refuses the first
// write, nothing is written and the batch fails. If it refuses a later write, the requests of that key
// fail with an error that wraps storage.ErrOutcomeUnknown and storage.ErrPartialWrite, because other
// keys of these requests may have been written.
//
// # Keys
//
// A record is a Redis string with the name PREFIX{GROUP}KEY. Braces in KEY do not change the hash
// slot, because Redis uses the first pair of braces, which is the store's.
//
// In a Redis Cluster or a Ring, all keys of one decision must have the same group. Set
// sluice.Options.Group, for instance to the tenant. Otherwise a decision with several keys fails with
// [ErrCrossSlot]. Keys without a group spread over the servers. They work for decisions with one key.
//
// On a single server, all requests can share a script. In a cluster or a Ring, requests share a script
// only if they have the same group or the same key. If a proxy stands between the client and several
// servers, set [Options.Proxy]. Then only requests with the same keys share a script. See [Store.Place].
//
// # Expiry
//
// A record expires at most one millisecond after its TTL, unless the writer's clock is ahead of the
// server's. If it is ahead, the record expires later. A record that CompareAndSwap wrote then expires
// when the server's clock reaches Until of the storage.Swap. A record of a batch then expires when the
// server's clock reaches the time of the batch plus the TTL. There is nothing to purge.
//
// # Data loss
//
// Redis may lose writes that it has acknowledged. The units that these writes charged can then be spent
// again. A crash loses the writes since the last snapshot or fsync. A failover loses the writes that
// had not reached the replica. While the old primary is alive, these can be the writes of several
// seconds, because it accepts writes until it learns that it was replaced. The settings
// min-replicas-to-write and min-replicas-max-lag bound that time. An eviction policy other than
// noeviction deletes live records.
//
// While a server of a redis.Ring does not answer, the Ring assigns its keys to the other servers, but
// does not copy the records.
//
// # Failures
//
// During a failover, decisions fail with storage.ErrUnavailable until the client knows the new
// primary. A decision whose reply is lost fails with storage.ErrOutcomeUnknown, unless the limiter
// can find out before its timeout whether the decision was stored. The limiter recovers without a
// restart. If a server has too many clients, go-redis only reports that the connection is closed. So the
// store connects once more, at most once a second, and adds the server's reply to its errors.
//
// Decisions whose keys are on a lost server of a Redis Cluster or a Ring fail in the same ways: in a
// cluster until the failover ends, and in a Ring until it assigns the keys to other servers. If a
// lost node of a cluster has no replica, the cluster refuses all keys, unless
// cluster-require-full-coverage is no. While a slot moves to another node, a decision fails if some
// of its keys are on the old node and some on the new one.
//
// A client with ReadOnly, RouteByLatency or RouteRandomly reads from replicas, which may be behind.
// Primaries still decide all batches and swaps.
//
// A call ends at the deadline of its context. But without ContextTimeoutEnabled, go-redis itself waits
// for a reply until its ReadTimeout. Until then the connection stays in use. Without
// ContextTimeoutEnabled, each call also takes longer, because it needs a goroutine of its own. With
// ContextTimeoutEnabled, the goroutine of the limiter's caller can make the round trip itself. But
// go-redis does not notice the cancellation of a context, so a cancelled call then returns only at the
// reply or at the deadline; see sluice.Limiter.
//
// If a server refuses connections, go-redis dials five times per call, which takes half a second, and
// prints each of these calls to stderr, unless you call Disable of its package logging, or its SetLogger.
// If the decision's deadline passes meanwhile, the decision fails with storage.ErrOutcomeUnknown, because
// the limiter does not know yet that nothing was sent. If DialerRetries is 1, it fails with
// storage.ErrUnavailable. FailOpen and FailLocal then also decide after 50 ms instead of half a second.
package redis
