// Package sluice limits how often something may happen: the requests of a client, the
// attempts to log in, the tokens that a tenant spends.
//
//	limiter, err := sluice.New(nil, "gcra 100/min burst=20")
//	if err != nil {
//		return err
//	}
//	decision, err := limiter.Allow(ctx, "ann")
//	switch {
//	case err != nil:
//		return err // there is no decision; this is never a denial
//	case !decision.Allowed:
//		return fmt.Errorf("too many requests, try again in %v", decision.RetryAfter)
//	}
//
// Each key, here "ann", has its own limit. An allowed call is charged one unit. A denied call is not
// charged. The state is in memory, because the store is nil.
//
// # Stores
//
// A limit holds across processes if they share a store. All stores decide alike:
//
//	nil               the memory of this limiter
//	storage/memory    the memory of this process, for several limiters
//	storage/sqlite    a SQLite file, for the processes of one machine
//	storage/postgres  PostgreSQL
//	storage/redis     Redis, and Redis Cluster
//
// # Specs
//
// A spec is a policy as one line of text: an algorithm, a limit, and options.
//
//	gcra 100/min burst=20                   a steady rate, with up to 20 calls at once (generic
//	                                        cell rate algorithm)
//	tokenbucket 10/s burst=50               decides like gcra 10/s burst=50; its units are tokens
//	fixedwindow 5/hour                      5 in an hour, which starts with the first call
//	movingwindow 100/min slots=12           about 100 in the last minute (a sliding window)
//	all(gcra 10/s; gcra 1000/day)           several limits on one key
//
// The period is a unit of time (such as ms, s, min, hour or day), with a number if you like
// (15min). Without burst=, gcra and tokenbucket allow the whole count at once.
// [compose.ParsePolicy] lists all options.
//
// # Rules
//
// The function For makes a limiter that applies several rules to one call. Each rule has a function
// that takes its key from the input. A call is allowed only if all rules allow it. Otherwise no rule
// charges it:
//
//	type Attempt struct{ Account, IP string }
//
//	logins, err := sluice.For(store,
//		sluice.By("account", func(a Attempt) string { return a.Account }, "fixedwindow 5/15m"),
//		sluice.By("ip", func(a Attempt) string { return a.IP }, "fixedwindow 20/15m"))
//
//	decision, err := logins.Allow(ctx, Attempt{Account: "ann", IP: "192.0.2.1"})
//	err = logins.ResetRule(ctx, "account", Attempt{Account: "ann"}) // unlocks the account only
//
// # Tests
//
// The method Step of a policy is a pure function of a state, a time and a cost. A test of a limit needs
// no limiter, no store and no sleep:
//
//	policy := sluice.MustPolicy("gcra 3/hour burst=2")
//	state, result, err := policy.Step(nil, nil, noon, 1) // the second nil is the state of a new key
//	state, result, err = policy.Step(nil, state, noon.Add(20*time.Minute), 1)
//
// The first argument is a buffer for the next state; nil allocates one. A test of a program with a
// limiter sets Options.Clock. If the program calls Wait, run the test in testing/synctest, because
// Wait sleeps by the clock of the machine.
//
// # Errors
//
// An error means that the limiter could not decide, for example because the store failed or a context
// ended. Do not let the call through, but do not report a denial either. Options.OnFailure sets what
// happens instead if the store fails. Wait and WaitN also return an error if the call cannot be
// allowed before the deadline.
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
// if it comes from the denial cache; see Options.DenialCacheTTL. No call is allowed from the cache. The first denial of
// a key after its limit was lowered takes two more round trips, which keep the record long enough. A policy of your own that
// changes its state with a denial is then decided by Load and CompareAndSwap.
//
// On a memory.Store, Allow and AllowN do not allocate with one to three rules, if you call them
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
// If a reply is lost, Allow and Charge are decided again once, so a call can be charged twice. Even so, the store
// never admits more than the bound. A refund or a reset is never applied twice: it returns
// [storage.ErrOutcomeUnknown] instead. If a call may have been charged when its timeout ends, it returns
// this error too.
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
// If the store's own clock decides, a state that is more than 10 s ahead of it was written before the
// clock stepped back, or before a failover to a server whose clock is behind. The limiter then moves the
// state to now. The units in use stay in use, and a part of a unit counts as a whole unit. So no key is
// locked out until the clock reaches the old time again.
//
// If Options.Clock is set, or if the clocks of the processes decide, the time in a state never moves back.
// Otherwise two clocks could together allow any number of calls. So if clocks disagree, the clock that
// is ahead determines the state. See Options.Clock, and the page docs/operation.md of the module.
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
// A limiter does not limit how many calls run at the same time. If one process needs one limit for all its
// calls, not one for each key, golang.org/x/time/rate is enough.
//
// Callers share round trips only within one limiter. On PostgreSQL, statements for the same key wait
// for each other, because the key is one row. On SQLite, all transactions wait for each other. Callers
// of Wait do not form a queue: when units return, the first caller that asks gets them.
//
// # Other packages
//
// Package [github.com/sluice-go/sluice/httplimit] limits the requests to an HTTP server, and
// keeps an HTTP client within the limits of servers.
package sluice
