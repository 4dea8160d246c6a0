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
// # Limits of this package
//
// It does not limit how many calls run at the same time. If one process needs one limit for all its
// calls, not one for each key, golang.org/x/time/rate is enough.
//
// Package [github.com/sluice-go/sluice/httplimit] limits the requests to an HTTP server, and
// keeps an HTTP client within the limits of servers. Package [compose] describes in detail what a
// limiter promises, on each store and in failures.
package sluice
