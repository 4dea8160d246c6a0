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
//	gcra 100/min burst=20           a steady rate, with up to 20 calls at once (generic cell rate algorithm)
//	tokenbucket 10/s burst=50       decides like gcra 10/s burst=50; its units are tokens
//	fixedwindow 5/hour              5 in an hour, which starts with the first call
//	movingwindow 100/min slots=12   about 100 in the last minute (a sliding window)
//	inflight 20 ttl=30s             20 at the same time
//	calendar 10000/month            10000 in each month (tz=Europe/Berlin sets the zone)
//	all(gcra 10/s; gcra 1000/day)   several limits on one key
//	penalty(gcra 5/h; for=1h)       after a denial, no call for an hour
//
// # Rules
//
// For makes a limiter that applies several rules to the input of a call, here an Attempt. If any rule denies,
// nothing is charged.
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
//	AllowUpTo       as many of n calls as fit
//	Wait            waits until a call is allowed, first come, first served
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
//	storage/sqlite    a SQLite file, for the processes of one machine; one transaction for all waiting callers
//	storage/postgres  PostgreSQL; one round trip for all waiting callers
//	storage/redis     Redis and Redis Cluster; one round trip for all waiting callers
//	your own          two round trips, Load and CompareAndSwap, and more after each conflict
//
// On PostgreSQL and Redis, a call with a calendar or penalty rule takes two round trips of its own. A repeated denial takes none;
// see Options.DenialCacheTTL. In memory, Allow with up to three rules, without a calendar or penalty, does not allocate, if it is
// called directly and the decision does not escape to the heap.
//
// # Tests
//
// To test a policy, call its Step with times of your own: it is a pure function, so it needs no limiter and no sleep. To test a
// limiter, set Options.Clock. Wait sleeps by the clock of the machine, so test it in [testing/synctest].
//
// # Failures
//
// An error means that the limiter could not decide. If the store fails, a call returns an error after Options.Timeout at the
// latest, unless you choose otherwise with Options.OnFailure. After a second of failures a circuit breaker opens, and calls no
// longer wait. Each server of a store has its own breaker.
//
// If a reply is lost, Allow and Charge are decided again once. So a call can be charged twice, or be denied although it was
// charged. A refund or a reset is not repeated: it returns [storage.ErrOutcomeUnknown].
//
// # Clocks
//
// Options.Clock decides, or else the clock of the store: that of the PostgreSQL or Redis server, Clock of sqlite.Options, or the
// method Now of a memory.Store. Load of your own store returns the time.
//
// If the store's clock steps back by more than 10 s, or a failover goes to a server whose clock is behind, the limiter moves the
// states to now. Units in use stay in use, and no key is locked out. With Options.Clock a state in a store that you pass never
// moves back, because two clocks could then admit any number of calls.
//
// # Policies of your own
//
// PostgreSQL and Redis run a policy as a program; see algo.Portable. A policy without a program runs in Go, in two round trips,
// as on your own store. On PostgreSQL, name the program in postgres.Options.Programs. If a denial changes the state, such as a
// count of denials, the limiter stores it in two more round trips.
//
// # Limitations
//
// Calls of Wait are served in order within one Limiter, but not across processes. On PostgreSQL, statements for one key wait for
// each other, because the key is one row. On SQLite all transactions do.
package sluice
