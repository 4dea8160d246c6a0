// Package fixedwindow counts units in windows of one period, and begins again
// from nothing at each window's end. It is the quota that people can explain:
// "5 per hour", "1000 a day, from midnight".
//
// # Promise
//
// A window admits at most Count units. Across the edge between two windows come
// the end of one and the beginning of the next, so a stretch of time as short as
// 2ns can see 2*Count units; one less where the first request opens the window,
// for its unit came at the other end. Over any x consecutive nanoseconds it
// admits at most
//
//	Count * (1 + ceil((x-1) / Period))
//
// units ([Bound]): a limit of 100/m admits at most 200 in any minute.
//
// # When not to use it
//
// Where a double burst across an edge does harm, choose gcra, or movingwindow
// with whole trailing slots. Where many callers wait for the same clock-aligned
// edge they all come back at once; a gcra lets them back in one by one.
//
// # Time-line
//
// 3/m aligned to the first request (the default): the window opens with the
// first request that pays and lasts one period.
//
//	        0s   10s  20s  30s  40s  50s  60s  70s  80s
//	        |----|----|----|----|----|----|----|----|
//	cost 1            ok, opens the window [20s, 80s)
//	cost 2                      ok
//	cost 1                           denied, retry in 30s
//	cost 3                                          ok, opens [80s, 140s)
//
// The same aligned to the clock: windows are the multiples of the period since
// the Unix epoch, moved by Offset.
//
//	cost 1            ok, in the window [0s, 60s)
//	cost 2                      ok
//	cost 1                           denied, retry in 10s
//	cost 3                                ok, in [60s, 120s)
//
// A window is left only when time has passed its end. A clock that steps back
// stays in the window that was open last; it cannot open an earlier one anew.
//
// # Source
//
// Folklore; the form aligned to the clock is what HTTP APIs mean by a quota that
// "resets on the hour". Offset takes it to other edges: a day that begins at
// midnight in UTC+2 is one of 24h with an offset of -2h. Days of 23 or 25 hours
// are not known to it, nor are months; but each may have options of its own, as in
// the example Calendar of compose.Rule.
//
// The limit, the alignment and the offset of a live key may change. What was used
// stays used, and the window that it was used in ends where the present options
// end a window that contains its first payment.
//
// # State encoding
//
// Version 1, 11 bytes, and one more for every seven bits of Used after the
// first seven:
//
//	'f' 1
//	8 bytes, big endian: Start, ns since the Unix epoch, at most 2^62-1
//	uvarint: Used, from 1 to 2^62
//
// A key never seen, or with nothing used, is no bytes at all.
package fixedwindow
