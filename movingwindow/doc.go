// Package movingwindow counts the units of the last period, in slots: a window
// that moves along with time and has no edge across which a burst doubles at
// once.
//
// # Promise
//
// The period is cut into Slots slots of w = ceil(Period/Slots). The state counts
// the current slot, the Slots-1 before it, and the trailing one that the window
// is about to leave. What Trailing makes of that last one decides what is
// promised:
//
//   - Whole counts it in full, and then no stretch of Slots*w+1 ns, which is more
//     than one Period, ever sees more than Count units. It is the only setting
//     of any algorithm here that promises this and still lets Count units
//     through at once.
//   - Weighted, the default, counts it in proportion to how much of it is still
//     in the window, as if its units had been spread evenly. They need not have
//     been: a stretch of one Period can see up to 2*Count-1 units. What slots
//     buy is distance, for no stretch of (Slots-1)*w+1 ns sees more than Count.
//
// Over any x consecutive nanoseconds, if n is Slots and L is Count, Whole admits
// at most
//
//	L * ceil((2 + floor((x-2)/w)) / (n+1))  for x >= 2, else L
//
// and Weighted, with u = floor((x-2)/w) - (n-1) whole slots and e = (x-2) mod w,
//
//	L                                       where u < 0
//	L * (1 + u/n) + floor(L*e/w)            where n divides u
//	L * (2 + floor(u/n))                    elsewhere
//
// which is what [Bound] computes.
//
// # When not to use it
//
// Small limits: counting in slots denies more than the limit would. A caller who
// asks all the time gets this share of it (n is Slots, L is Count):
//
//	Weighted, n=1:  50% at L=1    80% at L=5    99% at L=100
//	Weighted, n=8:  89% at L=1
//	Whole:          n/(n+1) at every L
//
// A gcra gives 100% at any limit, and but for 1ns its bound is that of Weighted
// with one slot. Choose movingwindow where units spent must stay counted for a
// whole period.
//
// # Time-line
//
// 10/m with slots=1: one slot of 60s, and the one before it is trailing.
//
//	        0s        20s       40s       60s       80s       100s      120s
//	        |---------|---------|---------|---------|---------|---------|
//	cost 6                 ok, 4 left
//	cost 4                                ok at 60s: all of the 6 trail, 0 left
//	cost 1                                  denied: 4 + 6*56/60 + 1 > 10, retry in 6s
//	cost 3                                               ok at 90s: 4 + 6*30/60 + 3 = 10
//
// The estimate is not rounded before it is compared: it is decided in exact
// integers.
//
// # Source
//
// The estimate from two counters, known from HTTP edge servers, for Slots=1; the
// ring of sub-intervals for more. Slots begin at the multiples of w since the
// Unix epoch, so clients of one store agree on them without talking. A period
// that Slots does not divide is in effect the next that it does: Slots*w.
//
// The limit, its period and the slots of a live key may change. What was used
// stays used: each count goes to the new slot that holds the newest instant at
// which it may have been used.
//
// # State encoding
//
// Version 1, 19 bytes and, for counts below 128, one for each slot from the
// current one to the oldest in use; counts below 16384 take two. That is 20 to 23
// bytes with one slot, and 20 to 45 with twelve:
//
//	'm' 1
//	8 bytes, big endian: At, the last paid step, ns since the Unix epoch, at most 2^62-1
//	8 bytes, big endian: w, ns, from 1 to 2^62
//	uvarint: the number of counts, from 1 to 1025
//	uvarints: the counts by slot, from the slot of At to older ones
//
// The oldest count written is not 0, none is above 2^62, and they add up to less
// than 2^63.
// A key never seen, or with nothing used, is no bytes at all.
package movingwindow
