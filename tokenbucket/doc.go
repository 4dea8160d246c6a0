// Package tokenbucket is the token bucket: it holds a burst, every unit takes a
// token out, and tokens come back at the limit's rate, one by one or a batch at
// a time. It is the one to choose when refills are to come in batches, and the
// one whose numbers are the easiest to read.
//
// # Promise
//
// Over any x consecutive nanoseconds it admits at most ([Bound])
//
//	Burst + floor(Count * (x-1) / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil((x-1) / Period)    interval refill
//
// units. So 100/m with a burst of 20 admits at most 119 units in any minute if
// tokens come back one by one, and 40 if they come back at once; with its own
// burst of 100 it is 199, or 200.
//
// # When not to use it
//
// With continuous refill it decides like gcra as long as clocks agree; where they
// do not, gcra is the stricter. Interval refill lets in two batches back to back,
// one at the end of an interval and one at the beginning of the next. A promise
// that no interval of one Period ever sees more than Count units needs
// movingwindow with whole trailing slots, or continuous refill with a burst of 1.
// Quotas that people count by the calendar are a fixedwindow.
//
// # Time-line
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
// Intervals are counted from the payment that found the bucket full.
//
// # Faults it does not have
//
// Token buckets as a function of state and time have been written often, and
// often with one of these. A first request above the burst is denied here, not
// let through because the bucket is new. A denial does not move the clock, so who
// asks too often gets no fewer tokens. Time spent at full mints no tokens: the
// next payment starts the clock afresh. A bucket from the future, written by a
// clock that is ahead, neither panics nor refills; it spends what it held and
// waits.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986, turned upside down: his
// bucket leaks what this one regains. What has accrued of the next refill is
// kept as a fraction of whole numbers, so 3/s exhausted at 0 has exactly 3 tokens
// again at 1s, and 2000000000/s works.
//
// A limit changed on a live key keeps the tokens used, and what had accrued of
// the next refill by the last step that paid; the time since then counts at the
// new rate. With continuous refill that is the same fraction of a token, rounded
// down by less than 1/Period: a limit that is only spelled otherwise, 60/m for
// 1/s, has the same waits. With interval refill it is the time since the interval
// began, less any whole intervals of the new Period in it, which are over and
// give nothing: 60/m changed to 1/s after 30.5s gives its next token in 500ms,
// and 1/s changed to 60/m after 0.5s gives its next 60 in 59.5s. A changed Refill
// reads the one as the other.
//
// # State encoding
//
// Version 1, 20 to 26 bytes for limits per second, minute, hour or day (10/s, 100/m,
// 1000/h, 100000/h, 1000/d):
//
//	't' 1
//	1 byte: u<<4 | p, the widths of Used and of Period, as few bytes as they need
//	8 bytes: At, the last paid step, ns since the Unix epoch, at most 2^62-1
//	u bytes: Used, the tokens missing by then, from 1 to 2^62
//	p bytes: Part, the numerator of Part/Period of the next refill, accrued by then, below Period
//	p bytes: Period, in ns, of the limit that it paid under, at least 1
//
// All numbers are big endian. A key never seen, or with nothing used, is no bytes
// at all.
package tokenbucket
