// Package compose makes policies out of policies, and limiters out of policies
// and stores.
//
// [All] stacks several limits into one policy that allows only what every one
// of them allows: 10 a second and 100 a minute on the same key. [ParsePolicy]
// reads a policy from one line of text, the spec that every String method
// writes:
//
//	gcra 100/m burst=20
//	tokenbucket 10/s burst=50 refill=interval
//	fixedwindow 5/h align=clock offset=15m
//	movingwindow 100/m slots=12 trailing=whole
//	all(gcra 10/s; gcra 100/m)
//
// A [Limiter] applies rules to inputs of any type and keeps what was used in
// any [storage.Store], or in memory: several limits for one call, on several
// keys, all of them or none.
//
//	limiter, err := compose.New(store,
//		compose.Rule[*http.Request]{Name: "client", Key: clientIP, Policy: perClient},
//		compose.Rule[*http.Request]{Name: "everyone", Policy: overall})
//	decision, err := limiter.Allow(ctx, request)
//
// # What a policy admits
//
// Bound of a policy is the most that it admits for one key in any interval of a given
// length, wherever the interval begins. It is often more than the limit, because a
// burst comes on top of the rate, or because two windows meet: gcra 1000/h can admit
// 1999 in an hour. These policies admit at most so many in any
//
//	                                                    second  minute  hour    day
//	gcra 1000/h                                           1000    1016  1999  24999
//	gcra 1000/h burst=1                                      1      17  1000  24000
//	tokenbucket 1000/h refill=interval                    2000    2000  2000  25000
//	fixedwindow 1000/h                                    2000    2000  2000  25000
//	movingwindow 1000/h slots=12                          1000    1000  1999  24999
//	movingwindow 1000/h slots=12 trailing=whole           1000    1000  1000  23000
//
// The command sluice check prints this line for each rule of a limits.yaml. Bound tells
// math.MaxInt64 if the number is larger.
//
// # What a limiter promises
//
// A decision takes one round trip to the store when this process has seen the keys,
// or nobody has, and nobody else wrote them at the same moment; else one more. It
// takes none when it is a denial that rests on states seen before: a denial holds
// whatever others did since. Such a denial ends no later than its own RetryAfter, or
// Options.MaxAge, even where the key was reset, refunded or given a higher limit by
// another process.
//
// A store failure is never a denial and never a silent allow: it is an error,
// or a decision that says it is Degraded. When the reply to a write was lost
// and cannot be made up for, or the caller left while it was on its way, at
// most the cost of that one decision was taken without an answer.
//
// # Clocks
//
// Each decision goes by one reading of Options.Clock, by default the clock of this process.
// States never move back in time. So if the clocks of several processes disagree, the
// fastest one rules: a process whose clock is an hour ahead finds limits refilled an hour
// early, and a process with a right clock may then be denied until that hour is over. The
// store keeps a record for as long as the clock that wrote it is ahead, so the fast
// process gets that refill again only if nobody has spent under the key for that hour.
// Decision.Skew shows how far a state is ahead, and Options.MaxSkew makes it an error to be
// reported. Reset ends it for one key. States are not rebased to a slower clock, because
// two clocks that disagree would then be admitted without bound.
//
// A clock that is behind is not covered if it is more than 10 s behind both the clock of
// the store's server and the clock of another process. The server drops the records of the
// other process while the slow process still needs them. The slow process then admits a
// burst that is already used, and can do so again after every quiet gap. Keep the clocks
// synchronised, or use Options.StoreClock.
//
// Options.StoreClock makes all processes decide by the clock of the store's server, whatever
// their own clocks say:
//
//	clock := &storage.ServerClock{Server: store}
//	limiter, err := compose.Options[string]{StoreClock: clock}.New(store, rules...)
//
// There store is a *postgres.Store or a *redis.Store, or a storage.Clock that was found
// in a storage.Store by store.(storage.Clock). The others have no clock of a server.
//
// # In memory
//
// On a memory.Store a decision is made in place, under the locks of its
// records. Allow and AllowN by up to three rules allocate nothing, if they are
// called as methods and the decision is not kept: the results are on the
// caller's stack. Unless Options.Clock is set the time is memory.Store.Now,
// which goes on steadily while the wall clock is set; windows that must begin
// with its hours after that want Clock to be time.Now.
//
// # Known limits
//
// Callers of one limiter that meet on a key share a round trip. Those of several
// limiters or processes collide there, and try again: a key that the calls of a
// whole fleet have in common is slower the more processes there are. A caller
// that waits for a denial to end does not queue: who asks first is served first.
package compose
