// Package fixedwindow counts units in windows of one period, and starts again at zero when a window
// ends. A window starts at a request of its key ([AlignFirst]) or at a multiple of the period
// ([AlignClock]). Choose it for quotas that people talk about: "5 per hour", "1000 a day, from
// midnight".
//
// # Promise
//
// A window admits at most Count units. A short interval can include the end of one window
// and the start of the next, so with AlignClock an interval of 2ns can have 2*Count units.
// Times are rounded down to microseconds, so the instants of any x consecutive nanoseconds differ by up to
// m = ceil((x-1)/1000) microseconds. In x nanoseconds the package admits at most
//
//	Count * (1 + ceil(m / Period))
//
// units, with Period in microseconds ([Policy.Bound]). For example, a limit of 100/m admits at most 200 in any minute.
//
// With AlignFirst it admits one unit less unless m is a multiple of Period: 199 in any interval of 30s.
// Policy.Bound subtracts this unit, too. In the worst case, the interval starts inside a window. The
// request that opened this window came before the interval and took at least one unit.
//
// # When not to use it
//
// If a double burst at the end of a window does harm, use package gcra, or package movingwindow
// with Trailing: Whole. With AlignClock, the windows of all keys end at the same time, and all
// waiting callers retry then. To spread the retries, use gcra.
//
// # Timeline
//
// 3/m with AlignFirst, the default. The first allowed request opens the window, which
// lasts one period:
//
//	        0s   10s  20s  30s  40s  50s  60s  70s  80s
//	        |----|----|----|----|----|----|----|----|
//	cost 1            ok, opens the window [20s, 80s)
//	cost 2                      ok
//	cost 1                           denied, retry in 30s
//	cost 3                                          ok, opens [80s, 140s)
//
// The same with AlignClock. Windows start at the multiples of the period since the Unix
// epoch, plus Offset:
//
//	cost 1            ok, in the window [0s, 60s)
//	cost 2                      ok
//	cost 1                           denied, retry in 10s
//	cost 3                                ok, in [60s, 120s)
//
// If a clock steps back to a time before the window, the window stays open. No earlier window is
// opened again. A sluice.Limiter starts the window again at now, with the same units in use, if the clock of its
// store has stepped back by more than 10 s.
//
// # Time zones and calendars
//
// AlignClock gives the windows that HTTP APIs describe as "resets on the hour". For days that begin
// at midnight in UTC+2, use a period of 24h and an offset of -2h. The package does not know months,
// nor days of 23 or 25 hours. For these, compute the options from the date, as in the example
// Calendar of sluice.Rule.
//
// # Changed limits
//
// The limit, the alignment and the offset of a key may change. The units in use stay in use. The
// open window gets the end that it would have if the new options had already applied at its first
// allowed request or charge (State.Start).
//
// # State encoding
//
// Version 1 takes 17 bytes:
//
//	'f' 1
//	7 bytes: Start, in microseconds since the Unix epoch, at most 2^52-1
//	8 bytes: Used, from 1 to 2^52-1
//
// All numbers are big endian. The state of a key that is new or has no units in use is empty bytes.
package fixedwindow
