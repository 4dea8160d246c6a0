// Package algo defines the types that all rate limiting algorithms of sluice share.
//
// An algorithm is a pure function:
//
//	state', result = Step(state, now, options)
//
// The options include the limit and the cost of the request. The function reads no clock.
//
// sluice has four algorithms, each in its own package: gcra (choose it unless you need another), tokenbucket, fixedwindow and
// movingwindow. Package inflight counts units that are held, and package calendar units by date. An algorithm of your own works
// wherever they do, but a spec cannot name it.
//
// # Units and time
//
// A request, which package sluice names a call, costs a whole number of units. An instant is a whole
// number of microseconds since the Unix epoch, from 0 (1970) to [MaxInstant] (2112). [Instant] rounds
// times down.
//
// All arithmetic is exact, in whole numbers below 2^53, which are the same in Go, in Lua and in SQL. So nothing drifts, and
// [Result.RetryAfter] is right to the microsecond.
package algo
