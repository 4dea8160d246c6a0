// Package inflight limits how many units are held at the same time, such as requests that a server works on. It is a counting
// semaphore with leases.
//
// # Promise
//
// At most Count units are held at any time. Step takes units, Release gives them back, and Renew holds them for another TTL. A
// unit that is neither released nor renewed returns by itself: after TTL at the earliest, and at most Slots+1 slots after it was
// taken. A slot is TTL/Slots, rounded up to a whole microsecond. If the clock of one process is ahead, units of others return
// early by that much.
//
// Units of one slot are not told apart. So release each one once, and renew it with the time of its last renewal. A late or
// second release frees nothing of another slot.
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
// # Changed limits
//
// If the options of a key change, units stay held, but a step with a shorter TTL drops those that are older. After a change of
// TTL or Slots, Release and Renew may not find units that were taken before. These return by themselves.
package inflight
