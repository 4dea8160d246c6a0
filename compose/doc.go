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
//		compose.Rule[*http.Request]{Name: "client", Key: clientIP, Spec: "gcra 100/m burst=20"},
//		compose.Rule[*http.Request]{Name: "everyone", Spec: "gcra 5000/s"})
//	decision, err := limiter.Allow(ctx, request)
//
// Package sluice, at the root of the module, is a shorter way to the same limiters.
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
// A decision is made where the data is, so it takes one round trip whatever other
// processes do:
//
//	memory      none: under a lock
//	SQLite      one transaction, which serves all callers of the process who wait for it
//	PostgreSQL  one round trip: a function runs the step on the server
//	Redis       one round trip: a script runs the step on the server
//	others      two: Load and CompareAndSwap, and again after each conflict
//
// Callers of one limiter who wait while enough round trips are in flight share the next one.
// A denied call that is repeated within Options.DenialCacheTTL takes no round trip.
//
// A store failure is never a denial and never a silent allow: it is an error, or a decision
// that says it is Degraded. If a reply is lost, the units of the requests in that round trip
// may be charged once too often. They are never admitted beyond the bound. A refund or reset
// whose reply was lost is not repeated: it returns [storage.ErrOutcomeUnknown].
//
// # Policies that run in Go
//
// A server runs a policy by its program, see [algo.Portable]. These have none, and take two
// round trips or more:
//
//	gcra                         a period of 2^53 ns (104 days) or longer; or Burst*Period/d of
//	                             2^52 or more, where d is the greatest common divisor of
//	                             Count and of Period in ns
//	tokenbucket                  the same
//	tokenbucket refill=interval  a period of 2^53 ns or longer, or 2^52 ns (52 days) or longer
//	                             to regain the burst
//	fixedwindow                  a window of 2^52 ns or longer, or a count of 2^52 or more
//	movingwindow                 slots of 2^51 ns (26 days) or longer, a window and a slot of
//	                             2^53 ns or longer together, or a count of 2^52 or more
//	all(...)                     if a part has none
//	a policy of your own         unless it implements [algo.Portable]; on PostgreSQL its
//	                             program must also be in postgres.Options.Programs
//
// So does a call with a cost of 2^53 or more, or on a state with numbers that large.
//
// The server returns the states that it found. The limiter evaluates the policies on them
// in Go and compares how many steps were applied. If the two differ, the call fails with
// [storage.ErrProgram], whatever Options.OnFailure says. Then the program, its policy or
// the server has a fault. The call may have been paid.
//
// # Outages
//
// A call waits for the store until its context ends or Options.Timeout is over. When the
// store has failed for Options.CircuitOpenAfter, without a success, the circuit breaker of
// that server opens. Then new calls do not wait. They get a [storage.ErrUnavailable] at
// once that says why, or what Options.OnFailure makes of it. Calls that wait already go on
// until their time is over. While calls come in, one probe at a time tests the store in the
// background, at most ten a second. It tests whether the store can be written, and changes
// nothing. When a probe has succeeded the breaker is half-open: calls use the store again.
// If their next round trip succeeds the breaker closes, and if it fails the breaker opens
// at once.
//
// # The denial cache
//
// The states that a denied call saw stay in a cache for Options.DenialCacheTTL. Until then
// the limiter evaluates calls on the same keys on these states first. If that denies at the
// latest time that the server's clock can show by now, the call is denied without a round
// trip; if not, the store is asked. RetryAfter is computed at the earliest time that the
// clock can show, so waiting that long is enough if nobody else spends. Nothing is allowed
// from the cache. If another process refunds or resets a key, or raises its limit, this process
// sees that after DenialCacheTTL at the latest. It sees the refunds and resets of its own limiter
// at once.
//
// # Clocks
//
// Without Options.Clock the clock of the store decides. For PostgreSQL and Redis it is the
// clock of the server, read in the same round trip, so that the clocks of the processes may
// disagree. In a Redis Cluster it is that of the node that has the keys, or of any node for
// policies that run in Go. For SQLite it is sqlite.Options.Clock, by default the clock of the machine. A store of another kind that
// has no clock (see [driver.ServerTime]) goes by the clock of the process.
//
// With Options.Clock each round trip brings along a reading of that clock, which decides.
// States never move back in time. So if the clocks of several processes disagree, the
// fastest one rules: a process whose clock is an hour ahead finds limits refilled an hour
// early, and a process with a right clock may then be denied until that hour is over. The
// store keeps a record for as long as the clock that wrote it is ahead, so the fast process
// gets that refill again only if nobody has spent under the key for that hour.
// Decision.Skew shows how far a state is ahead, and Options.MaxSkew makes it an error to be
// reported. Reset ends it for one key. States are not rebased to a slower clock, because
// two clocks that disagree would then be admitted without bound.
//
// A clock that is behind is not covered if it is more than 10 s behind both the clock of
// the store's server and the clock of another process. The server drops the records of the
// other process while the slow process still needs them. The slow process then admits a
// burst that is already used, and can do so again after every quiet gap. Keep the clocks
// synchronised, or hand in none.
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
// Callers of several limiters or processes share no round trips. On PostgreSQL their
// statements wait for each other if they use the same key, because it is one row. On SQLite
// all transactions wait for each other. A caller that waits for a denial to end does not
// queue: whoever asks first is served first.
package compose
