// Package fixedwindow counts units in windows of one period. Choose it for quotas that people talk about: "5
// per hour", "1000 in 24 hours".
//
// # Promise
//
// A window admits at most Count units. In any interval of x nanoseconds the package admits at most
//
//	Count * (1 + ceil(m / Period))
//
// units ([Policy.Bound]). Period is in microseconds, and so is m = ceil((x-1)/1000); see [algo.Microseconds].
// For example, 100/m admits at most 200 in any minute.
//
// With AlignFirst the bound is one less unless m is a multiple of Period: 199 in any interval of 30s.
//
// # When not to use it
//
// If a double burst does harm, use package gcra, or package movingwindow with Trailing: Whole. With
// AlignClock, all waiting callers retry at the same time.
//
// # Timeline
//
// 3/m with AlignFirst, the default:
//
//	        0s   10s  20s  30s  40s  50s  60s  70s  80s
//	        |----|----|----|----|----|----|----|----|
//	cost 1            ok, opens the window [20s, 80s)
//	cost 2                      ok
//	cost 1                           denied, retry in 30s
//	cost 3                                          ok, opens [80s, 140s)
//
// If a clock steps back to a time before the window, the window stays open, and no earlier window opens
// again. [algo.Policy] describes the exception for large steps of a store's clock.
//
// # Time zones and calendars
//
// For days that begin at midnight in UTC+2, use AlignClock with a period of 24h and an offset of -2h. For
// months, and for the days of a zone whose clocks change, use package calendar.
//
// # Changed limits
//
// If the limit, the alignment or the offset of a key changes, the units in use stay in use. The open window
// ends as if the new options had applied since State.Start.
package fixedwindow
