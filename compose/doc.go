// Package compose combines policies into one policy, and applies policies to the calls of a
// program.
//
// Most programs use package [github.com/sluice-go/sluice] at the root of the module. It has
// the same limiters with shorter names. Use this package if you build your own tools on
// limiters, or to read exactly what a limiter promises.
//
// # Policies
//
// A policy is an algorithm with a limit and options. [ParsePolicy] reads it from its spec, a
// line of text:
//
//	gcra 100/m burst=20
//	tokenbucket 10/s burst=50 refill=interval
//	fixedwindow 5/h align=clock offset=15m
//	movingwindow 100/m slots=12 trailing=whole
//	all(gcra 10/s; gcra 100/m)
//
// A policy counts units. A call takes one unit, unless its rule sets a cost. The last policy is
// a [Stack] of two policies on one key. It allows a call if both policies allow it. [All] makes
// a Stack from policies.
//
// # Limiters
//
// A [Limiter] has rules. A [Rule] has a name, a policy, and a function that finds the key in
// the input of a call. Keys with the same bytes share a limit. A call is allowed if all rules
// allow it, and then it pays under all of them. A denied call pays nothing.
//
//	limiter, err := compose.New(store,
//		compose.Rule[*http.Request]{Name: "client", Key: clientIP, Spec: "gcra 100/m burst=20"},
//		compose.Rule[*http.Request]{Name: "everyone", Spec: "gcra 5000/s"})
//	decision, err := limiter.Allow(ctx, request)
//
// The store keeps the states of the keys. It is a [storage.Store], or nil for the memory of
// the limiter. Processes that share a store share the limits.
//
// # What a policy admits
//
// The Bound method of a policy returns the most units that it admits for one key in any
// interval of a given length. The bound is often above the limit, because a burst is added
// to the rate, or because the interval covers parts of two windows. Bound returns
// math.MaxInt64 if the number is larger than that. The command sluice check prints these
// numbers for each rule of a limits.yaml:
//
//	                                                    second  minute  hour    day
//	gcra 1000/h                                           1000    1016  1999  24999
//	gcra 1000/h burst=1                                      1      17  1000  24000
//	tokenbucket 1000/h refill=interval                    2000    2000  2000  25000
//	fixedwindow 1000/h                                    2000    2000  2000  25000
//	movingwindow 1000/h slots=12                          1000    1000  1999  24999
//	movingwindow 1000/h slots=12 trailing=whole           1000    1000  1000  23000
//
// # Round trips
//
// The stores of this module make a decision where the data is, so other processes that use the
// same keys add no round trips. A decision takes
//
//	memory        none; a lock protects the record
//	SQLite        one transaction, for all callers in the process that wait for it
//	PostgreSQL    one round trip; a function runs on the server
//	Redis         one round trip; a script runs on the server
//	other stores  two round trips, Load and CompareAndSwap, and more after each conflict
//
// If enough round trips of a limiter are in flight (Options.MaxRoundTrips), further callers
// wait, and the next round trip serves all of them as a batch. A repeated denial takes no
// round trip; see the denial cache below.
//
// # Failures
//
// If the store fails, the limiter returns an error, or a decision with Degraded set. It never
// reports a failure as a denial, and it never allows a call without reporting the failure.
// Options.OnFailure chooses between these.
//
// If a reply is lost, the limiter sends the batch again. Its calls can then be charged twice. Even
// so, the store never admits more than the bound. A refund or a reset is not sent again. It returns
// [storage.ErrOutcomeUnknown].
//
// # Outages
//
// A call waits for the store until its context ends, or until Options.Timeout is over.
//
// A circuit breaker opens if the store has failed for Options.CircuitOpenAfter without a
// success. Each server of a store has its own breaker. While the breaker is open, new calls
// do not wait: each gets [storage.ErrUnavailable] with the reason, or the decision that
// Options.OnFailure makes. Calls that were already waiting still wait for their full time.
//
// While calls arrive, one probe at a time tests the store in the background, at most ten
// times a second. A probe tests whether the store can write, but changes no data. After a
// successful probe the breaker is half-open, and calls use the store again. If their next
// round trip succeeds, the breaker closes. If it fails, the breaker opens again at once.
//
// # The denial cache
//
// After a denial the limiter caches the states of its keys for Options.DenialCacheTTL. During
// that time it evaluates calls with the same keys on the cached states first. If the cached
// states deny the call, the call is denied without a round trip. If not, the limiter asks the
// store. A call is never allowed from the cache.
//
// This process does not know the exact time on the server. It knows only an earliest and a latest
// possible time. The cache denies a call only if the states deny it at the later time. It computes
// RetryAfter from the earliest time, so the wait is never too short. After the wait the same call
// is allowed, if no other call has spent units.
//
// If another process refunds or resets a key, or raises its limit, this process can keep
// denying the key for up to DenialCacheTTL. A limiter sees its own refunds and resets at once.
//
// # Clocks
//
// If Options.Clock is nil, the clock of the store decides:
//
//	memory        memory.Store.Now
//	SQLite        sqlite.Options.Clock, by default the clock of the machine
//	PostgreSQL    the clock of the server, read in the same round trip
//	Redis         the same; in a Redis Cluster the clock of the node that has the keys, or of
//	              any node for policies that run in Go
//	other stores  the clock of the process, unless the store is a driver.ServerTime
//
// So with PostgreSQL and Redis it does no harm if the clocks of the processes disagree.
//
// If Options.Clock is set, that clock decides, and each round trip carries its time. States
// never move back in time, so the fastest clock wins if the clocks disagree. For example,
// suppose that the clock of one process is an hour ahead:
//
//   - That process gets units an hour before they are due, and the other processes can be
//     denied for that hour.
//   - The store keeps the record for that hour longer. So the process gets units early only
//     once. If no call uses the key for that hour, it can happen again.
//   - Decision.Skew shows how far a state is ahead. Options.MaxSkew makes it an error in
//     Decision.Err. Reset ends the effect for one key.
//   - The limiter never moves a state back to a slower clock. If it did, two clocks that
//     disagree could admit any number of calls.
//
// A clock can also be behind. If it is more than 10 s behind both the clock of the store's server
// and the clock of another process, the server deletes records that the slow process still needs.
// The slow process can then admit a burst twice. This can happen again after each time in which no
// call uses the key. Synchronise the clocks, or leave Options.Clock nil.
//
// # Policies that run in Go
//
// PostgreSQL and Redis run a policy as a program (see [algo.Portable]). The policies below
// have no program. They run in Go, and a decision takes two round trips or more, as on other
// stores:
//
//	gcra                         if the period is 2^53 ns (104 days) or longer, or if
//	                             Burst*Period/d is 2^52 or more, where d is the greatest
//	                             common divisor of Count and of Period in ns
//	tokenbucket                  under the same conditions
//	tokenbucket refill=interval  if the period is 2^53 ns or longer, or if the burst takes
//	                             2^52 ns (52 days) or longer to refill
//	fixedwindow                  if the window is 2^52 ns or longer, or the count 2^52 or more
//	movingwindow                 if a slot is 2^51 ns (26 days) or longer, if a window and a
//	                             slot together are 2^53 ns or longer, or if the count is 2^52
//	                             or more
//	all(...)                     if one of its policies has no program
//	your own policy              if it does not implement algo.Portable; on PostgreSQL also if
//	                             its program is not in postgres.Options.Programs
//
// A call with a cost of 2^53 or more also runs in Go, and so does a call on a state with such
// large numbers.
//
// The server returns the states that it found. The limiter evaluates the policies on these
// states in Go and compares how many steps were applied. If the numbers differ, the program,
// the policy or the server has a fault. The call then fails with [storage.ErrProgram] under
// every Options.OnFailure. It may have paid.
//
// # In memory
//
// On a [memory.Store] the limiter updates the records in place, under their locks. With one to
// three rules, Allow and AllowN do not allocate if you call them as methods of a *Limiter and the
// decision does not escape to the heap. The results are then on the caller's stack.
//
// The default clock of a memory.Store does not jump when the wall clock is set. To keep
// windows aligned with the wall clock after such a change, set Clock to time.Now.
//
// # Limitations
//
// Callers share round trips only within one limiter. On PostgreSQL, statements for the same
// key wait for each other, because the key is one row. On SQLite, all transactions wait for
// each other. Callers of Wait do not form a queue: when units return, the first caller that
// asks gets them.
package compose
