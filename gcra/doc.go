// Package gcra implements the generic cell rate algorithm: a burst at once, then a steady rate. Choose it unless you have a
// reason for another algorithm.
//
// # Promise
//
// In any interval of x nanoseconds it admits at most
//
//	Burst + floor(Count * m / Period)
//
// units ([Policy.Bound]), with Period in microseconds and m = ceil((x-1)/1000). For example, 100/m with a burst of 20 admits at
// most 120 units in any minute. Units come back one by one, at equal intervals.
//
// The bound holds even if clocks disagree, if each request counts at the time of its own clock. If a clock is behind [State].At,
// Remaining also subtracts the units that drain until then.
//
// # When not to use it
//
// Use package calendar for quotas by date, and package movingwindow with Trailing: Whole if no interval of one Period may ever
// have more than Count units.
//
// # Timeline
//
// 10/s with a burst of 3: the emission interval, Period/Count, is 100ms. At the theoretical arrival time (TAT), the key is like a
// new key.
//
//	        0ms           100ms          200ms          300ms          400ms
//	        |--------------|--------------|--------------|--------------|
//	cost 1  ok, TAT=100ms
//	cost 2  ok, TAT=300ms
//	cost 1  denied: 300+100-0 > 3*100, retry in 100ms
//	cost 1                 ok, TAT=400ms                                full again
//
// # Source
//
// ITU-T Recommendation I.371, annex A.
//
// # Changed limits
//
// If the limit of a key changes, the units in use after its last paid step (see [State]) stay in use, and drain at the new rate
// from then on. A part of a unit can count as a whole unit.
package gcra
