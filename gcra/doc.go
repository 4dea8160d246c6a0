// Package gcra implements the generic cell rate algorithm: it allows a burst at once,
// and after that a steady rate. Choose it unless you have a reason for another algorithm.
//
// # Promise
//
// Times are rounded down to microseconds, so the instants of any x consecutive nanoseconds differ by up to
// u = ceil((x-1)/1000) microseconds. In x nanoseconds it admits at most
//
//	Burst + floor(Count * u / Period)
//
// units, with Period in microseconds ([Policy.Bound]). This holds even if clocks disagree, if each request counts at the time that
// its own clock showed: a request whose clock is behind finds fewer units. For example, a limit of
// 100/m with a burst of 20 admits at most 120 units in any minute, and a caller at a steady pace gets
// exactly 100. Units are refilled one by one, at equal intervals. There is no end of a window at which
// all units come back at once.
//
// A denial stays correct. If a request is denied at an instant, then the same request
// at the same instant is still denied after other requests were admitted, whatever clock
// they used. So a program can repeat a cached denial without reading the state, even
// if clocks disagree. Only a refund, a reset, or a raised limit or burst can change a denial. There is one exception: if the
// clock of its store has stepped back by more than 10 s, a sluice.Limiter moves the units in use to now.
//
// # When not to use it
//
// Use package fixedwindow for quotas that follow the calendar ("1000 per day, from midnight"). If
// no interval of one Period may ever have more than Count units, use package movingwindow with
// Trailing: Whole.
//
// # Timeline
//
// 10/s with a burst of 3: the emission interval T is 100ms. TAT is the theoretical
// arrival time. At that instant the key is equivalent to a new key.
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
// ITU-T Recommendation I.371, annex A, defines the algorithm in two equivalent ways: as
// virtual scheduling and as a continuous-state leaky bucket. This package uses the words
// of the first, and [State] has the form of the second. A cost of c is c cells at once.
// Fractions are exact: a limit of 3/s that is exhausted at 0s has exactly 3 units again
// at 1s, and 2000000/s works.
//
// # Range
//
// A [State] holds the units in use, multiplied by the weight of a unit: a level of at most [algo.MaxLevel]. So the
// burst times that weight must be below 2^51. If this does not hold for the exact rate of a limit, the nearest
// slower rate is used; see [algo.Limit.Rate]. A debt can be at least as large as the burst. If a clock is behind
// State.At, the units that drain between the clock's time and State.At are in use too, but Remaining counts
// them only up to MaxLevel. The decision, the waits, and the units that a charge or a refund moves are exact even
// then.
//
// # Changed limits
//
// If the limit of a key changes, the key keeps the units that were in use after its last paid step:
// an allowed request, a charge or a refund. From that step on, they drain at the new rate. If the
// weight of a unit changes, a part of a unit counts as a whole unit.
//
// # State encoding
//
// Version 1 takes 25 bytes:
//
//	'g' 1
//	7 bytes: At, the time of the last paid step, in microseconds since the Unix epoch, at most 2^52-1
//	8 bytes: Level, the units in use after that step, multiplied by Unit, from 1 to 2^52-1
//	8 bytes: Unit, the weight of a unit at that step, from 1 to 2^52-1
//
// All numbers are big endian. The state of a new key is empty bytes.
package gcra
