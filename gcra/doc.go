// Package gcra is the generic cell rate algorithm: a burst at once, then a
// steady flow. It is the one to choose when nothing speaks for another.
//
// # Promise
//
// Over any x consecutive nanoseconds it admits at most
//
//	Burst + floor(Count * (x-1) / Period)
//
// units ([Bound]), in whichever order the clocks are read: one that is behind
// sees less. So a limit of 100/m with a burst of 20 admits at most 119 units in
// any minute, and a steady caller gets exactly 100. Units come back one by one,
// evenly spaced; there is no edge at which a whole window comes back at once.
//
// A denial stays true: whatever is admitted to others in the meantime, by
// whichever clock, the same request at the same instant is denied still. So a
// cached denial can be answered without looking, and clocks that disagree
// cannot make it wrong. (A refund can, and a raised limit: that is what they are for.)
//
// # When not to use it
//
// Quotas that people count by the calendar ("1000 per day, from midnight") are a
// fixedwindow. A promise that no interval of one Period ever sees more than Count
// units needs movingwindow with whole trailing slots, or a gcra with Burst=1.
//
// # Time-line
//
// 10/s with a burst of 3: the emission interval T is 100ms. TAT is the theoretical
// arrival time, the instant at which the key would be as if never used.
//
//	        0ms           100ms          200ms          300ms
//	        |--------------|--------------|--------------|
//	cost 1  ok, TAT=100ms
//	cost 2  ok, TAT=300ms                                 full again
//	cost 1  denied: 300+100-0 > 3*100, retry in 100ms
//	cost 1                 ok, TAT=400ms
//
// # Source
//
// ITU-T Recommendation I.371, annex A, which defines the algorithm twice and
// alike: as virtual scheduling, the words of which are used here, and as a
// continuous-state leaky bucket, which is the form of [State]. A cost c is c cells
// at once. Fractions are kept exactly, so 3/s exhausted at 0 has exactly 3 units
// again at 1s, and 2000000000/s works.
//
// Where more than 2^63-1 units are owed, to a clock that is far behind under a fast
// limit, Remaining stays at the burst less 2^63-1. What is decided, the waits and
// the units moved by a charge or a refund are exact even so; Available gives way,
// so that the accounts add up.
//
// A limit changed on a live key keeps the units used as of the last paid step;
// from there on they drain at the new rate. A part of a unit is rounded up by less
// than 1/Period, and only where the period changes.
//
// # State encoding
//
// Version 1, 20 to 26 bytes for limits per second, minute, hour or day (10/s, 100/m,
// 1000/h, 100000/h, 1000/d):
//
//	'g' 1
//	1 byte: u<<4 | p, the widths of Used and of Period, as few bytes as they need
//	8 bytes: At, the last paid step, ns since the Unix epoch, at most 2^62-1
//	u bytes: Used, the whole units in use right after it, at most 2^62
//	p bytes: Part, the numerator of Part/Period of one more, below Period
//	p bytes: Period, in ns, of the limit that it paid under, at least 1
//
// All numbers are big endian. A key never seen is no bytes at all.
package gcra
