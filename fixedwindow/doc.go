// Package fixedwindow counts units in windows of one period. Choose it for quotas that people talk about: "5 per hour".
//
// # Promise
//
// A window admits at most Count units. In any interval of x nanoseconds the package admits at most
//
//	Count * (1 + ceil(m / Period))    with AlignFirst one less unless m is a multiple of Period
//
// units ([Policy.Bound]), with Period in microseconds and m = ceil((x-1)/1000). For example, 100/m admits at most 200 in any
// minute.
//
// # When not to use it
//
// If a double burst does harm, use package gcra, or package movingwindow with Trailing: Whole. With AlignClock, all waiting
// callers retry at the same time. For months, and for days of a zone whose clocks change, use package calendar.
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
// If a clock steps back to a time before the window, the window stays open. [algo.Policy] describes large steps.
//
// # Changed limits
//
// If the options of a key change, the units in use stay in use. The open window ends as if the new options had applied since
// [State].Start.
package fixedwindow
