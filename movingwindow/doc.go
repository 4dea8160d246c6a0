// Package movingwindow implements the sliding window counter: it counts the units of the last period, in slots.
//
// # Promise
//
// The period is cut into n slots (Options.Slots) of w = ceil(Period/n) microseconds. The window has the current slot, the n-1
// slots before it, and a part of the trailing slot before these. Trailing sets how the trailing slot counts:
//
//   - Whole counts all of its units. No interval of one Period ever has more than Count units.
//   - Weighted, the default, counts its units in proportion to its overlap with the window. An interval of one Period can have up
//     to 2*Count-1 units, and one of (n-1)*w us at most Count.
//
// For any interval of x nanoseconds, let L be Count and m = ceil((x-1)/1000). Whole admits at most
//
//	L * ceil((2 + floor((m-1)/w)) / (n+1))  for m >= 1, else L
//
// units. With u = floor((m-1)/w) - (n-1) and e = (m-1) mod w, Weighted admits at most
//
//	L                                       if u < 0
//	L * (1 + u/n) + floor(L*e/w)            if n divides u
//	L * (2 + floor(u/n))                    otherwise
//
// units ([Policy.Bound]).
//
// # When not to use it
//
// With a small limit, counting in slots denies more than the limit requires. A caller that always retries at the earliest allowed
// time gets this part of the limit (with package gcra 100%):
//
//	Weighted, n=1:  50% at L=1    80% at L=5    99% at L=100
//	Weighted, n=8:  89% at L=1
//	Whole:          n/(n+1) at every L
//
// # Timeline
//
// 10/m with slots=1: one slot of 60s, and the slot before it is trailing.
//
//	        0s        20s       40s       60s       80s       100s      120s
//	        |---------|---------|---------|---------|---------|---------|
//	cost 6                 ok at 30s: 4 left
//	cost 4                                ok at 60s: all of the 6 trail, 0 left
//	cost 1                                  denied at 64s: 4 + 6*56/60 + 1 > 10, retry in 6s
//	cost 3                                               ok at 90s: 4 + 6*30/60 + 3 = 10
//
// If Count*w is 2^50 or more, as in 2000000/h with one slot, the overlap is rounded up by less than 1/256 of the slot.
//
// # Source
//
// With one slot, this is the estimate from two counters of HTTP edge servers. Slots start at the multiples of w since the Unix
// epoch. If n does not divide Period, the effective period is n*w.
//
// # Changed limits
//
// If the limit or the slots of a key change, units stay in use. Those of an old slot move to the new slot that contains its last
// microsecond, or the last paid step if that is earlier.
package movingwindow
