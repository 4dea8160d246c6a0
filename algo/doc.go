// Package algo defines the types that all algorithms of sluice share. An algorithm is a pure function, which reads no clock:
//
//	state', result = Step(state, now, options)
//
// The algorithms are in packages gcra (choose it unless you need another), tokenbucket, fixedwindow, movingwindow, inflight
// (units that are held) and calendar (quotas by date). Your own works wherever they do, but a spec cannot name it.
//
// # Units and time
//
// A request, which package sluice names a call, costs a whole number of units. Times are whole microseconds; see [Instant].
//
// Arithmetic is exact, in whole numbers below 2^53, which are the same in Go, Lua and SQL.
package algo
