// Package compose combines policies into one policy, and applies policies to the calls of a
// program. A call is whatever the program limits, such as a request or an attempt to log in.
//
// Most programs use package [github.com/sluice-go/sluice] at the root of the module. It has
// the same limiters with shorter names. Use this package if you build your own tools on
// limiters, or to read exactly what a limiter promises.
//
// # Policies and limiters
//
// A policy is an algorithm with a limit and options. [ParsePolicy] reads it from its spec, a
// line of text such as "gcra 100/m burst=20". A policy counts units. A call costs one unit, unless
// its rule sets a cost. A [Stack] applies several policies to one key; [All] makes it.
//
// A [Limiter] has rules. A [Rule] has a name, a policy, and a function that finds the key in the input
// of a call. Under one rule, inputs with the same key share a limit. A call is allowed if all rules
// allow it, and then it is charged under all of them. A denied call is not charged. A rule denies
// nothing if it does not apply to the call ([Skip]) or is a shadow rule (Rule.Shadow).
//
//	limiter, err := compose.New(store,
//		compose.Rule[*http.Request]{Name: "client", Key: clientIP, Spec: "gcra 100/m burst=20"},
//		compose.Rule[*http.Request]{Name: "everyone", Spec: "gcra 5000/s"})
//	decision, err := limiter.Allow(ctx, request)
//
// The store keeps the states of the keys. It is a [storage.Store], or nil for the memory of
// the limiter. Processes that share a store share the limits.
//
// The Bound method of a policy returns the most units that it admits for one key in any interval of
// a given length. The bound is often above the limit, because a burst is added to the rate, or
// because the interval covers parts of two windows. For example, gcra 1000/h admits up to 2000
// units in an hour. The command sluice check prints these numbers for each rule of a configuration
// file, and docs/policies.md compares the algorithms.
//
// # Round trips
//
// The stores of this module make a decision under a lock, in a transaction or on the server. So a write
// of another process to the same key forces no retry. There are two exceptions: policies that run in Go
// (see below), and two processes that create a key of PostgreSQL at the same moment. A decision takes
//
//	memory        none; a lock protects the record
//	SQLite        one transaction, for all waiting callers of the limiter
//	PostgreSQL    one round trip; a function runs on the server
//	Redis         one round trip; a script runs on the server
//	other stores  two round trips, Load and CompareAndSwap, and more after each conflict
//
// If Options.MaxRoundTrips round trips of a limiter to one server are in flight, further callers
// wait. The next round trip serves all of them as a batch. A repeated denial takes no round trip
// if it comes from the denial cache; see Options.DenialCacheTTL. No call is allowed from the cache.
//
// On a [memory.Store], Allow and AllowN do not allocate with one to three rules, if you call them
// directly, not through an interface, and the decision does not escape to the heap. The results are
// then on the caller's stack.
//
// # Failures
//
// If the store fails, the limiter returns an error, or a decision with Degraded set. It never reports a
// failure as a denial, and it never allows a call without reporting the failure. Options.OnFailure
// chooses between the error and the decision. A call waits for the store until its context ends, or
// until Options.Timeout is over; less if connections are refused, see Options.Timeout. After a time without success a circuit breaker opens, and calls do not
// wait any more; see Options.CircuitOpenAfter. Each server of a store has its own breaker.
//
// If a reply is lost, the limiter sends the batch again, until the timeout. Allow and Charge can
// then charge a call twice. Even so, the store never admits more than the bound. A refund or a
// reset is never applied twice. If the limiter cannot find out whether it was applied, it returns
// [storage.ErrOutcomeUnknown]. If a call may have been charged when its timeout ends, it returns
// this error too. On SQLite, the limiter does not repeat a transaction whose COMMIT failed. The calls
// that it would have charged or refunded return ErrOutcomeUnknown.
//
// # Clocks
//
// If Options.Clock is set, that clock decides. If it is nil, the clock of the store decides:
//
//	memory        the method Now of the memory.Store
//	SQLite        Clock of sqlite.Options; nil means the clock of the machine
//	PostgreSQL    the clock of the server
//	Redis         the clock of the server
//	other stores  the clock of the process, unless the store returns a time (see package driver)
//
// The time in a state never moves back. So if clocks disagree, the clock that is ahead determines
// the state. See Options.Clock, and the page docs/operation.md of the module.
//
// # Policies that run in Go
//
// PostgreSQL and Redis run a policy as a program (see [algo.Portable]). A policy without a program
// runs in Go, and a decision takes two round trips or more, as on other stores. All policies of the
// four algorithms have a program. A Stack has none if one of its parts has none, and your own policy has
// none if it does not implement algo.Portable. On PostgreSQL the program of your own policy must also
// be in postgres.Options.Programs. A call of a policy of package movingwindow also runs in Go if the
// state was written with slots of another length, or if the limit is now far below the units in use.
//
// The server returns the states that it found. The limiter decides again in Go on these states, and
// compares how many charges and refunds the server and Go have made. If the numbers differ, the
// program, the policy or the server has a fault. The call then fails with [storage.ErrProgram]
// under every Options.OnFailure. It may have been charged.
//
// # Limitations
//
// Callers share round trips only within one limiter. On PostgreSQL, statements for the same key wait
// for each other, because the key is one row. On SQLite, all transactions wait for each other. Callers
// of Wait do not form a queue: when units return, the first caller that asks gets them.
package compose
