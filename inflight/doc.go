// Package inflight limits how many units are held at the same time, such as requests that a server works on.
//
// # Promise
//
// At most Count units are held at any time. Step takes units, and Release gives them back. A unit that is not given back, for
// instance because its process has crashed, returns by itself: not before TTL has passed since it was taken, and at most Slots+1
// slots after it was taken. A slot is TTL/Slots, rounded up to a whole microsecond. Renew holds the unit for another TTL. If the
// clock of one process is ahead, units of others return early by that much.
//
// A unit is given back to the slot of time in which it was taken. So a late or second release frees nothing of another slot.
// Units of one slot are not told apart. So release each one once, and renew it with the time of its last renewal.
//
// # When not to use it
//
// It is not a lock: work that goes on after its units have returned runs beside other work. Renew in time, and stop the work if
// Renew denies. [github.com/sluice-go/sluice.Limiter.Do] does both.
//
// # Timeline
//
// 2 ttl=30s slots=3: slots of 10s.
//
//	      0s        10s       20s       30s       40s       50s
//	      |---------|---------|---------|---------|---------|
//	cost 1     ok at 5s: 1 left
//	cost 1              ok at 14s: 0 left
//	cost 1                   denied at 20s, retry in 20s: the first unit returns at 40s at the latest
//	release 1                      at 25s, taken at 5s: 1 left
//	cost 1                           ok at 26s: 0 left
//	renew 1                               at 32s, taken at 14s: held until 70s at the latest
//
// # Source
//
// This is a counting semaphore with leases. The units are counted by slots, as in package movingwindow with trailing=whole. So
// the state is bounded, and has no names of holders.
//
// # Changed limits
//
// If Count, TTL or Slots of a key change, units stay held. But a step with a shorter TTL drops the units that are older than that
// TTL. After a change of TTL or Slots, Release and Renew may not find a unit that was taken before. It returns by itself then.
package inflight
