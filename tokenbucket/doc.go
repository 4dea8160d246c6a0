// Package tokenbucket is the token bucket: it holds a burst, every unit takes a
// token out, and tokens come back at the limit's rate, one by one or a batch at
// a time. It is the one to choose when refills are to come in batches, and the
// one whose numbers most people can read.
//
// # Promise
//
// Over any x consecutive nanoseconds it admits at most ([Bound])
//
//	Burst + floor(Count * (x-1) / Period)                continuous refill
//	Burst + min(Count, Burst) * ceil((x-1) / Period)     interval refill
//
// units. So 100/m with a burst of 20 admits at most 119 units in any minute if
// tokens come back one by one, and 40 if they come back at once. A full bucket
// of 100/m admits 199 in its first minute, or 200 if they come back at once.
//
// # When not to use it
//
// With continuous refill it decides like gcra wherever clocks agree; of the two,
// gcra is the stricter where they do not. Interval refill lets in two batches
// back to back: one at the end of an interval, one at its beginning. A promise that no
// interval of one Period ever sees more than Count units needs movingwindow with
// whole trailing slots, or a burst of 1. Quotas that people count by the calendar
// are a fixedwindow.
//
// # Time-line
//
// 3 every 50ms with a burst of 5, refill=interval:
//
//	        0ms            50ms           100ms          150ms
//	        |--------------|--------------|--------------|
//	cost 2  ok, 3 left     +2: full
//	cost 2   2ms: ok, 1 left, next refill in 48ms
//	cost 2   2ms: denied, retry in 48ms
//	cost 4                 ok, 0 left     +3             +2: full
//
// The same with continuous refill: one token every 16.666...ms, exactly.
//
//	cost 2  ok, 3 left
//	cost 2   2ms: ok, 1 left, next refill in 14.666667ms
//	cost 2   2ms: denied, retry in 14.666667ms
//
// # Faults it does not have
//
// Token buckets as a function of state and time have been written often, and
// often with one of these. A first request above the burst is denied here, not
// let through on a bucket that was never filled. A denial does not move the
// clock, so who asks too often still gets tokens. Time spent at full mints no
// tokens: the next payment starts the clock afresh. A bucket from the future,
// written by a clock that is ahead, neither panics nor refills; it waits.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986, where it is the leaky
// bucket as a meter. What has accrued of the next refill is kept as a fraction
// of whole numbers, so 3/s exhausted at 0 has exactly 3 tokens again at 1s, and
// 2000000000/s works.
//
// A limit changed on a live key keeps the tokens used and, as far as there can be
// one under the new Period, the part of a refill that had accrued by the last
// step that paid. The time since then refills at the new rate.
//
// # State encoding
//
// Version 1, typically 12 to 17 bytes for limits per second or minute:
//
//	't' 1
//	8 bytes, big endian: At, the last paid step, ns since the Unix epoch, at most 2^62-1
//	uvarint: Part, what had accrued of the next refill, of Period
//	uvarint: Used, from 1 to 2^62
//
// A key never seen, or with nothing used, is no bytes at all.
package tokenbucket
