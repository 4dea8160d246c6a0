// Package tokenbucket implements the token bucket: a bucket of Burst tokens that is refilled token by token
// or in batches. Choose it if tokens have to come back in batches.
//
// # Promise
//
// In any interval of x nanoseconds it admits at most
//
//	Burst + floor(Count * m / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil(m / Period)    interval refill; one less unless m is a multiple of Period
//
// units ([Policy.Bound]). Period is in microseconds, and so is m = ceil((x-1)/1000); see [algo.Microseconds].
// For example, 100/m with a burst of 20 admits in any minute at most 120 units with continuous refill, and
// 40 with interval refill. With the default burst of 100 it is 200 with both.
//
// # When not to use it
//
// With continuous refill the package decides like package gcra while clocks agree. If they disagree, gcra is
// stricter. With interval refill two batches can be spent back to back. For windows see package gcra.
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
// If the clock is behind the state, there is no refill before the time in the state. [algo.Policy] describes
// the exception for large steps of a store's clock.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986. Fractions of a token are exact; for the few rates that
// are rounded see [algo.Limit.Rate].
//
// # Changed limits
//
// If the limit of a key changes, the tokens that were missing after its last paid step stay missing. The
// time since that step counts at the new rate.
//
//   - With continuous refill, a part of a token counts as a whole token if the weight of a token changes.
//   - With interval refill, the time from the start of the interval to that step counts too, modulo the
//     new Period. If 60/m becomes 1/s and the step was 30.5s into the interval, the next token comes 500ms
//     after the step.
//
// If Refill changes, only the time since that step counts, and a part of a token counts as a whole token.
package tokenbucket
