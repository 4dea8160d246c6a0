// Package tokenbucket implements the token bucket. The bucket holds a burst of tokens,
// each unit takes one token, and the bucket is refilled at the limit's rate, either token
// by token or in batches. Choose it if tokens have to come back in batches, or if you want
// the numbers that are easiest to explain.
//
// # Promise
//
// In any x consecutive nanoseconds it admits at most ([Policy.Bound])
//
//	Burst + floor(Count * (x-1) / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil((x-1) / Period)    interval refill
//
// units. For example, 100/m with a burst of 20 admits in any minute at most 119 units with
// continuous refill, and 40 with interval refill. With the default burst of 100 it is
// 199 and 200.
//
// # When not to use it
//
// With continuous refill the package decides like gcra as long as clocks agree. If they
// disagree, gcra is stricter. With interval refill two batches can be spent back to back: one at
// the end of an interval, the other at the start of the next.
//
// If no interval of one Period may ever see more than Count units, use movingwindow with
// whole trailing slots, or continuous refill with a burst of 1. Use fixedwindow for quotas
// that follow the calendar.
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
// Intervals start at the payment that found the bucket full. If the state was written by a clock
// that is ahead, the bucket gets no refill until that time.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986. His bucket leaks where this one is
// refilled. Fractions of a refill are exact: a limit of 3/s that is exhausted at 0s has
// exactly 3 tokens again at 1s, and 2000000000/s works.
//
// # Changed limits
//
// If the limit of a key changes, the key keeps the tokens used. It also keeps the part of
// the next refill that had accrued by the last paid step. All time since that
// step counts at the new rate.
//
//   - With continuous refill, the accrued part is a fraction of a token, rounded down by less
//     than 1/Period. So 60/m and 1/s have the same waits.
//   - With interval refill, the accrued part is the time since the interval began, modulo the
//     new Period. Whole intervals in it refill nothing. For example, if 60/m becomes 1/s
//     after 30.5s, the next token comes in 500ms. If 1/s becomes 60/m after 0.5s, the next 60
//     tokens come in 59.5s.
//
// If Refill changes, the new kind of refill interprets the accrued part.
//
// # State encoding
//
// Version 1 is the encoding of package gcra with the tag 't'. Used is the tokens missing, from 1.
// Part/Period is the fraction of the next refill. A key that is new or full is empty bytes.
package tokenbucket
