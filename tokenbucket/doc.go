// Package tokenbucket implements the token bucket: a bucket of Burst tokens that is refilled token by token or in batches. Choose
// it if tokens have to come back in batches.
//
// # Promise
//
// In any interval of x nanoseconds it admits at most
//
//	Burst + floor(Count * m / Period)               continuous refill
//	Burst + min(Count, Burst) * ceil(m / Period)    interval refill; one less unless m is a multiple of Period
//
// units ([Policy.Bound]), with Period in microseconds and m = ceil((x-1)/1000). For example, 100/m with a burst of 20 admits in
// any minute at most 120 units with continuous refill, and 40 with interval refill.
//
// # When not to use it
//
// With continuous refill it decides like package gcra, which is stricter if clocks disagree. With interval refill, two batches
// can be spent back to back.
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
// If a clock is behind the state, nothing is refilled until it has caught up. [algo.Policy] describes large steps.
//
// # Source
//
// J. S. Turner, New directions in communications, 1986.
//
// # Changed limits
//
// If the limit of a key changes, the tokens that were missing after its last paid step stay missing. The time since that step counts
// at the new rate. With interval refill, the time from the start of the interval to that step counts too, modulo the new Period. If
// Refill changes, only the time since that step counts. A part of a token can count as a whole token.
package tokenbucket
