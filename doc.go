// Package sluice limits how often something may happen: the requests of a client, the attempts to
// log in, the tokens that a tenant spends.
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
// Each key, here "ann", has its own limit. An allowed call costs one unit, a denied call nothing.
//
// # Specs
//
// A spec is a policy as text: an algorithm, a limit, and options. compose.ParsePolicy lists all.
//
//	gcra 100/min burst=20           a steady rate, with up to 20 calls at once
//	tokenbucket 10/s burst=50       decides like gcra 10/s burst=50; its units are tokens
//	fixedwindow 5/hour              5 in an hour, which starts with the first call
//	movingwindow 100/min slots=12   about 100 in the last minute (a sliding window)
//	inflight 20 ttl=30s             20 at the same time
//	calendar 10000/month            10000 in each month of a time zone
//	all(gcra 10/s; gcra 1000/day)   several limits on one key
//	penalty(gcra 5/h; for=1h)       after a denial, no call for an hour
//
// # Rules
//
// For makes a limiter that applies several rules to the input of a call. If any rule denies, nothing is charged.
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
// # Operations
//
//	Allow, AllowN   allow calls, all or none
//	AllowUpTo       allows as many of n calls as fit
//	Wait            waits until a call is allowed
//	Reserve         charges an estimate that Settle corrects
//	Do, Hold        hold a unit of inflight while work runs, and release it
//	Peek            decides without a charge
//	Charge, Refund  take or give back units, whatever the limit
//	Reset           deletes the states of an input
//	Clear           deletes the states of all inputs under a rule
//
// # Stores
//
// A limit holds across processes if they share a store. All stores decide alike:
//
//	nil               the memory of this limiter
//	storage/memory    the memory of this process, for several limiters
//	storage/sqlite    a SQLite file, for the processes of one machine
//	storage/postgres  PostgreSQL
//	storage/redis     Redis and Redis Cluster
//	your own          a storage.Store
//
// On PostgreSQL and Redis, one round trip decides all waiting calls. docs/operation.md has the exceptions, and describes outages,
// lost replies and clocks. If a reply is lost, a call can be charged twice, or be denied although it was charged.
//
// In memory, a direct call of Allow does not allocate unless the decision escapes. The limiter must have at most three rules, and
// no calendar or penalty.
//
// # Tests
//
// To test a policy, call its Step with times of your own: it is a pure function. To test a limiter, set Options.Clock. Wait sleeps
// by the clock of the machine, so test it in [testing/synctest].
package sluice
