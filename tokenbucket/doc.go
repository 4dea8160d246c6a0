// Package tokenbucket implements the token bucket. The bucket holds a burst of tokens, each unit
// takes one token, and the bucket is refilled at the limit's rate, either token by token or in
// batches. Choose it if tokens have to come back in batches.
//
// # Promise
//
// In any x consecutive nanoseconds it admits at most ([Policy.Bound])
//
//	Burst + floor(Count * (x-1) / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil((x-1) / Period)    interval refill
//
// units. With interval refill it admits one unit less unless x-1 is a multiple of Period, and
// Policy.Bound subtracts this unit. The reason is that the first of these ceil((x-1)/Period) refills
// ends an interval that began before the x nanoseconds. An interval runs only while a token is missing,
// so the x nanoseconds begin with at most Burst-1 tokens. For example, 100/m with a burst of 20 admits
// in any minute at most 119 units with continuous refill, and 39 with interval refill. With the default
// burst of 100 it is 199 with both.
//
// # When not to use it
//
// With continuous refill the package decides like package gcra as long as clocks agree. If they
// disagree, gcra is stricter. With interval refill two batches can be spent back to back: one at
// the end of an interval, the other at the start of the next.
//
// If no time span of one Period, wherever it starts, may ever have more than Count units, use package
// movingwindow with Trailing: Whole, or continuous refill with a burst of 1. Use package fixedwindow
// for quotas that follow the calendar.
//
// # Timeline
//
// 3 every 50ms with a burst of 5 and interval refill:
//
//	        0ms            50ms           100ms          150ms
//	        |--------------|--------------|--------------|
//	cost 2  ok, 3 left
//	cost 2    2ms: ok, 1 left, next refill in 48ms
//	cost 2    3ms: denied, retry in 47ms
//	                       +3: 4 left
//	cost 4                 ok, 0 left
//	                                      +3: 3 left     +2: full
//
// The same with continuous refill, a token every 50/3 ms exactly:
//
//	cost 2  ok, 3 left
//	cost 2    2ms: ok, 1 left, next refill in 14.666667ms
//	cost 2    3ms: denied, retry in 13.666667ms
//
// The first interval starts at the request that found the bucket full. If the state was written by
// a clock that is ahead, the bucket gets no refill before the time in the state.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986. His bucket leaks, whereas this one is
// refilled. Fractions of a refill are exact: a limit of 3/s that is exhausted at 0s has
// exactly 3 tokens again at 1s, and 2000000000/s works.
//
// # Changed limits
//
// If the limit of a key changes, the same number of tokens is missing as after its last paid step: an
// allowed request, a charge or a refund. The key also keeps the part of the next refill that had
// accrued by that step. All time since then counts at the new rate.
//
//   - With continuous refill, the accrued part is a fraction of a token. If the period changes to
//     n nanoseconds, it is rounded down, by less than 1/n of a token. If 60/m becomes 1/s, which
//     is the same rate, and the burst stays the same, no wait changes.
//   - With interval refill, the accrued part is the time from the start of the interval to that
//     step, modulo the new Period. For example, let that step be 30.5s into an interval of 60/m.
//     If the limit becomes 1/s, the next token comes 500ms after the step, and the 30 whole
//     seconds refill nothing. Let it be 0.5s into an interval of 1/s. If the limit becomes 60/m,
//     the next 60 tokens come 59.5s after the step.
//
// If only Refill changes, the accrued fraction of a token becomes the same fraction of an interval,
// or the reverse.
//
// # State encoding
//
// Version 1 is the encoding of package gcra with the tag 't'. Used is the number of missing tokens,
// at least 1. Part/Period is the fraction of the next refill that has accrued. The state of a key
// that is new or full is empty bytes.
package tokenbucket
