// Package gcra implements the generic cell rate algorithm: it allows a burst at once, then a steady rate.
// Choose it unless you have a reason for another algorithm.
//
// # Promise
//
// In any interval of x nanoseconds it admits at most
//
//	Burst + floor(Count * m / Period)
//
// units ([Policy.Bound]). Period is in microseconds, and so is m = ceil((x-1)/1000); see [algo.Microseconds].
// For example, 100/m with a burst of 20 admits at most 120 units in any minute, and a caller at a steady pace
// gets exactly 100. Units come back one by one, at equal intervals.
//
// The bound holds even if clocks disagree, if each request counts at the time of its own clock. A request
// whose clock is behind finds fewer units.
//
// A denial stays correct: the same request at the same instant is still denied after other requests were admitted,
// whatever clocks they used. Only a refund, a reset, or a raised limit or burst can change it, or a store's clock that
// stepped back by more than 10 s (see [algo.Policy]).
//
// # When not to use it
//
// Use package calendar for quotas by date ("1000 per day, from midnight"), and package movingwindow with
// Trailing: Whole if no interval of one Period may ever have more than Count units.
//
// # Timeline
//
// 10/s with a burst of 3: the emission interval, Period/Count, is 100ms. At the theoretical arrival time (TAT), the key is
// like a new key.
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
// ITU-T Recommendation I.371, annex A. Fractions of a unit are exact.
//
// # Range
//
// A full burst must weigh less than 2^51, or the nearest slower rate is used; see [algo.Limit.Rate]. A debt
// can be at least as large as the burst. For a clock behind State.At, Remaining also subtracts the units that
// drain until State.At, but only up to [algo.MaxLevel]. The decision, the waits and Paid stay exact.
//
// # Changed limits
//
// If the limit of a key changes, the units in use after its last paid step (see [State]) stay in use, and
// drain at the new rate from then on. If the weight of a unit changes, a part of a unit counts as a whole unit.
package gcra
