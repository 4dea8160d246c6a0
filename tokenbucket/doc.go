// Package tokenbucket implements the token bucket. The bucket holds a burst of tokens, each unit
// takes one token, and the bucket is refilled at the limit's rate, either token by token or in
// batches. Choose it if tokens have to come back in batches.
//
// # Promise
//
// Times are rounded down to microseconds, so the instants of any x consecutive nanoseconds differ by up to
// m = ceil((x-1)/1000) microseconds. In x nanoseconds it admits at most ([Policy.Bound])
//
//	Burst + floor(Count * m / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil(m / Period)    interval refill
//
// units, with Period in microseconds. With interval refill it admits one unit less unless m is a multiple
// of Period, and Policy.Bound subtracts this unit. The reason is that the first of these ceil(m/Period)
// refills ends an interval that began before the x nanoseconds. An interval runs only while a token is
// missing, so the x nanoseconds begin with at most Burst-1 tokens. For example, 100/m with a burst of 20
// admits in any minute at most 120 units with continuous refill, and 40 with interval refill. With the
// default burst of 100 it is 200 with both.
//
// # When not to use it
//
// With continuous refill the package decides like package gcra as long as clocks agree. If they
// disagree, gcra is stricter. With interval refill two batches can be spent back to back: one at
// the end of an interval, the other at the start of the next.
//
// If no time span of one Period, wherever it starts, may ever have more than Count units, use package
// movingwindow with Trailing: Whole. Use package fixedwindow for quotas that follow the calendar.
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
//	cost 2    2ms: ok, 1 left, next refill in 14.667ms
//	cost 2    3ms: denied, retry in 13.667ms
//
// The first interval starts at the request that found the bucket full. If the state was written by
// a clock that is ahead, the bucket gets no refill before the time in the state. A sluice.Limiter moves that time to
// now if the clock of its store has stepped back by more than 10 s.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986. His bucket leaks, whereas this one is
// refilled. Fractions of a token are exact: a limit of 3/s that is exhausted at 0s has
// exactly 3 tokens again at 1s, and 2000000/s works. If the exact rate of a limit with continuous
// refill needs too large numbers, the nearest slower rate is used; see [algo.Limit.Rate]. Interval
// refill needs no fractions.
//
// # Changed limits
//
// If the limit of a key changes, the same number of tokens is missing as after its last paid step: an
// allowed request, a charge or a refund. All time since then counts at the new rate.
//
//   - With continuous refill, a part of a token counts as a whole token if the weight of a token
//     changes. If 60/m becomes 1/s, which is the same rate, the weight stays the same, and no wait
//     changes.
//   - With interval refill, the time from the start of the interval to that step counts too, modulo
//     the new Period. For example, let that step be 30.5s into an interval of 60/m.
//     If the limit becomes 1/s, the next token comes 500ms after the step, and the 30 whole
//     seconds refill nothing. Let it be 0.5s into an interval of 1/s. If the limit becomes 60/m,
//     the next 60 tokens come 59.5s after the step.
//
// If Refill changes, the time before the last paid step no longer counts, and a part of a token counts as
// a whole token.
//
// # State encoding
//
// Version 1 is the encoding of package gcra with the tag 't'. Level is the weight of the missing tokens.
// With interval refill a token weighs 1, and Unit is 2^51 plus the microseconds from the start of the
// interval to At. If Period is 1us, Unit is 1 with interval refill too. The state of a key that is new or full
// is empty bytes.
package tokenbucket
