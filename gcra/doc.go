// Package gcra implements the generic cell rate algorithm: it allows a burst at once,
// and after that a steady rate. Choose it unless you have a reason for another algorithm.
//
// # Promise
//
// In any x consecutive nanoseconds it admits at most
//
//	Burst + floor(Count * (x-1) / Period)
//
// units ([Policy.Bound]). This holds even if clocks disagree, if each request counts at the time that
// its own clock showed: a request whose clock is behind finds fewer units. For example, a limit of
// 100/m with a burst of 20 admits at most 119 units in any minute, and a caller at a steady pace gets
// exactly 100. Units are refilled one by one, at equal intervals. There is no end of a window at which
// all units come back at once.
//
// A denial stays correct. If a request is denied at an instant, then the same request
// at the same instant is still denied after other requests were admitted, whatever clock
// they used. So a program can repeat a cached denial without reading the state, even
// if clocks disagree. Only a refund, a reset, or a raised limit or burst can change a denial.
//
// # When not to use it
//
// Use package fixedwindow for quotas that follow the calendar ("1000 per day, from midnight"). If
// no interval of one Period may ever have more than Count units, use package movingwindow with
// Trailing: Whole, or gcra with Burst=1.
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
// at 1s, and 2000000000/s works.
//
// # Range
//
// A State holds at most 2^62 units. If a clock is behind State.At, the units that drain between the
// clock's time and State.At are in use too. If the limit is above one unit per nanosecond, the units in
// use can exceed 2^63-1 in this case. Remaining is then Burst - (2^63-1). The decision, the waits, and
// the units that a charge or a refund moves are exact even then.
//
// # Changed limits
//
// If the limit of a key changes, the key keeps the units that were in use after its last paid step:
// an allowed request, a charge or a refund. From that step on, they drain at the new rate. If the
// period changes to n nanoseconds, a fraction of a unit is rounded up, by less than 1/n of a unit.
//
// # State encoding
//
// Version 1 takes 20 to 26 bytes for limits per second, minute, hour or day (10/s, 100/m,
// 1000/h, 100000/h, 1000/d):
//
//	'g' 1
//	1 byte: u<<4 | p, the widths of Used and of Period in bytes, as small as possible
//	8 bytes: At, the time of the last paid step, in ns since the Unix epoch, at most 2^62-1
//	u bytes: Used, the whole units in use after that step, at most 2^62
//	p bytes: Part, the numerator of the fraction Part/Period of one more unit, below Period
//	p bytes: Period of the limit at that step, in ns, at least 1
//
// All numbers are big endian. The state of a new key is empty bytes.
package gcra
