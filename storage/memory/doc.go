// Package memory keeps the states of limits in the memory of this process.
//
// The zero [Store] is ready for use. It forgets when the process ends, and is
// shared by nobody else: use it for one process, for tests, and as the stand-in
// while a database is away.
//
// # Bounded
//
// A store holds at most MaxKeys records. When a new one needs room, what has
// lapsed goes first, since it means no more than no record at all; then, the
// record that is nearest to lapsing, which has the least left to tell. So a
// flood of keys that are seen once, each owing little, pushes out its own and
// not the keys that are being throttled, as dropping the least recently used
// would:
//
//	throttled key  |================ waits ================>|   kept to the end
//	flood            |=>| |=>| |=>| |=>| |=>| |=>| |=>| |=>|    dropped, nearest first
//
// Room is made before it is known whether it will be needed: a look at a key that is
// not there, or a denial, can push out a record as well.
//
// [Stats] counts the records that were dropped while they still meant something.
// If that number grows, MaxKeys is too small, or someone is making up keys.
//
// A record takes about 64 bytes for a state of up to 25 bytes, however long its
// key, and a longer state up to half as much again as its length more. The
// garbage collector has nothing to look at in them.
//
// # Keys
//
// Of a key only its [Name] is kept: 112 bits of two 64-bit hashes under seeds
// drawn anew in each process. A new key is taken for one that is there with a
// probability of 2^-92 in a store of a million records, and nobody outside the
// process can prepare keys that are.
//
// # In place
//
// [Hold], [Cell], [Name], [Prefix] and what handles them are how package compose decides
// without an allocation. To keep a limiter's states here takes none of them.
//
// # Time
//
// Records lapse by the time that comes with each decision ([storage.Timed],
// [storage.InPlace]), never by a clock of the store's own, so limits on virtual
// time are exact. Only the plain methods read a clock, [Store.Now]. A lapsed
// record is absent at once; its memory is used again when there is need, or
// freed by [Store.Sweep]. Times before 1970 and after 2262 are as if time
// stood still there.
package memory
