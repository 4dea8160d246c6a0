// Package redis keeps states in Redis 7 or later: one server, a replica set
// behind Sentinel, or a Redis Cluster. It takes any client of
// github.com/redis/go-redis/v9 and never closes it.
//
// # One round trip
//
// A batch of requests is one Lua script, which runs the steps of policies in the server
// ([Store.Run]). The script reads each key once, decides the requests in order, and writes
// each key that has changed once. It uses the time of the server, or the one in the batch.
// A script does everything or nothing, and no other command runs meanwhile. A script of 64
// requests takes the server about 0.3 ms.
//
// A store sends a script by its hash. If the server does not know the script, after a
// restart or SCRIPT FLUSH, the store sends it once more in full. The client never sends a
// write again by itself, whatever its MaxRetries: only the limiter can tell whether the
// first try was applied.
//
// A policy without a program in Lua takes two round trips: [Store.LoadNow] and
// [Store.CompareAndSwap], which is a script too.
//
// # Permissions
//
// The user of the client needs the commands GET, MGET, SET, PSETEX, DEL, TIME, EVAL and
// EVALSHA on all keys with the prefix:
//
//	ACL SETUSER limiter on >password ~sluice:* +get +mget +set +psetex +del +time +eval +evalsha
//
// In a Redis Cluster the client needs CLUSTER and ASKING too (+cluster +asking), and READONLY (+readonly) if it reads replicas. Behind Sentinel the user of
// the sentinels is another one: see SentinelUsername of go-redis. If the user may not use
// one of the keys of a batch, the limiter tries the requests of that batch once more, each
// with its own keys alone. If the server refuses the first write of a batch, the batch
// fails and nothing is written. If it refuses a later one, the requests of that key fail
// with storage.ErrTorn: other keys may have been written.
//
// # Keys
//
// A record is a Redis string under the name PREFIX{GROUP}KEY. Braces in the user's part of
// a key place nothing, because they come after those of the store.
//
// In a Redis Cluster all keys of one decision must be in one hash slot: set
// compose.Options.Group, to the tenant for instance. Otherwise a decision on several keys
// fails with [ErrCrossSlot]. Keys without a group spread over the cluster, and serve
// decisions on one key.
//
// Requests share a script if they are for one server. In a cluster they must be in one hash
// slot. If something stands between the client and several servers, set [Options.Spread]:
// then only requests of the same keys share a script. See [Store.Place].
//
// # Expiry
//
// The server drops records by itself, at the millisecond after their TTL. If the time of a
// batch or the Until of a swap is ahead of the server's clock, it drops the record after
// that time by its own clock. There is nothing to purge.
//
// # What can be lost
//
// Redis may lose writes that it has acknowledged: those after the last snapshot or fsync if
// it crashes, and those that have not reached the replica if a replica takes over. Clients
// can then spend that quota again, at most what was admitted in that time. While the old
// primary is alive, that can be seconds, because it serves until it learns that it was
// replaced; min-replicas-to-write and min-replicas-max-lag bound it. An eviction policy
// other than noeviction drops live records: clients can spend their quota again, too.
//
// # Failures
//
// During a failover decisions fail with storage.ErrUnavailable until the client knows the
// new primary. Those whose reply is lost fail with storage.ErrOutcomeUnknown, unless the
// limiter can ask in time whether they were stored. In a Redis Cluster the same holds for a
// node that is lost and, if it has no replica, for all keys. It holds for a slot that is
// being moved, while one key of a decision is on the old node and another on the new one.
// The limiter needs no restart.
//
// A client with ReadOnly, RouteByLatency or RouteRandomly reads from replicas, which may be
// behind. Batches and swaps are decided by primaries all the same.
//
// A call ends at the deadline of its context. go-redis itself waits for a reply until its
// ReadTimeout. Until then the connection stays in use, and in a cluster a goroutine waits
// too: set ContextTimeoutEnabled, so that the client ends with the deadline. go-redis does
// not notice that a context is cancelled. So a caller of a limiter whose context is
// cancelled during a round trip that it sends itself waits for the reply or the deadline;
// see compose.Limiter.
//
// If a server refuses connections, go-redis dials it five times within one call, over half
// a second. If the deadline of a decision ends meanwhile, the limiter does not know yet
// that nothing was sent, and the decision fails with storage.ErrOutcomeUnknown. Set
// DialerRetries to 1, and it fails with storage.ErrUnavailable. go-redis logs a line for
// each try, about twenty a second, unless its SetLogger says otherwise.
package redis
