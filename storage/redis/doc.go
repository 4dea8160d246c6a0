// Package redis stores limits in Redis 7 or later: one server, a primary with replicas behind Sentinel, a Redis Cluster, or the
// servers of a [redis.Ring]. It takes any client of github.com/redis/go-redis/v9 and never closes it.
//
// A Lua script decides a batch of requests. With 64 requests it takes the server 0.2 to 0.4 ms.
//
// # Settings of the client
//
// Set ContextTimeoutEnabled. Without it, the connection of a call that has ended stays in use until the ReadTimeout.
//
// Set DialerRetries to 1. Otherwise go-redis retries a refused connection for half a second, and FailOpen and FailLocal decide
// only after that. go-redis prints refused connections to stderr, unless you call Disable or SetLogger of its package logging.
//
// # Permissions
//
// The user of the client needs these commands on all keys with the prefix:
//
//	ACL SETUSER limiter on >password ~sluice:* +get +mget +set +psetex +pttl +del +time +eval +evalsha
//
// To list keys, as "sluice keys" and sluice.Limiter.Clear do, it also needs +scan.
//
// A Redis Cluster also needs +cluster, +asking and +command, and +readonly if the client reads from replicas. Without +command,
// calls can miss their deadlines. A redis.Ring needs +ping, or it soon regards all its servers as down. Some options of the
// client need +select (DB), +client|setname (ClientName) or +ping (RouteByLatency). Sentinels have their own users: see
// SentinelUsername of go-redis.
//
// If the server refuses the first write of a script, nothing is written. If it refuses a later one, the requests of that key fail
// with [storage.ErrOutcomeUnknown] and [storage.ErrPartialWrite], because their other keys may have been written.
//
// # Keys
//
// A record is a Redis string. Its name is the prefix and the text of its driver.RuleKey. It expires at most one millisecond after
// its TTL, so there is nothing to purge.
//
// In a Redis Cluster or a Ring, a call with several keys fails with [ErrCrossSlot], unless all keys have the same group. Set
// sluice.Options.Group, for instance to the tenant. Requests then share a script only if they have the same group or key.
// The same holds for every redis.ClusterClient. redis.NewUniversalClient also makes one for Sentinel, if RouteByLatency,
// RouteRandomly or IsClusterMode is set.
//
// # Data loss
//
// A crash loses the writes since the last snapshot or fsync. A failover loses those that had not reached the replica, perhaps of
// several seconds; min-replicas-to-write and min-replicas-max-lag bound that. An eviction policy other than noeviction deletes
// live records. If a server of a Ring does not answer, the Ring assigns its keys to others, without the records.
//
// # Failures
//
// During a failover, and until a Ring has reassigned the keys of a lost server, decisions fail with [storage.ErrUnavailable] or
// [storage.ErrOutcomeUnknown]. If a lost node has no replica, the cluster refuses all keys, unless cluster-require-full-coverage
// is no. While a slot moves, a decision fails if its keys are on both nodes.
package redis
