// Package algo defines the types that all rate limiting algorithms of sluice share: [Limit] is a rate,
// [Result] is the result of one decision, and [Policy] is an algorithm with its options.
//
// An algorithm is a pure function:
//
//	state', result = Step(state, now, options)
//
// The options include the limit and the cost of the request. The function reads no clock,
// keeps no state of its own and takes no lock. A limiter in production, a table test with literal
// times and a replay of an access log therefore run the same code.
//
// sluice has four algorithms, each in its own package: gcra (choose it unless you need another),
// tokenbucket, fixedwindow and movingwindow. To add an algorithm, write a package of the same shape
// and test it with package algotest. All functions that take a [Policy] then accept it. But a spec,
// which is a policy as text such as "gcra 100/m burst=20", can name only the four. A compose.Stack
// is a policy that applies several policies to one key.
//
// # Units and time
//
// A request costs a whole number of units. Package sluice names a request a call. An
// instant is a whole number of microseconds since the Unix epoch, from 0 (1970) to [MaxInstant]
// (2112). [Instant] rounds times down. It rounds times outside of this range to its nearest end. All durations
// of a [Result] are whole microseconds, rounded up. All arithmetic is exact: it uses whole numbers below 2^53, which are
// the same in Go, in Lua and in SQL. So nothing drifts, [Result.RetryAfter] is the very microsecond, and every
// policy runs on every store.
package algo
