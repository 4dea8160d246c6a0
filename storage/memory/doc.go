// Package memory keeps the states of limits in the memory of this process.
//
// The zero [Store] is ready for use. It forgets when the process ends, and is shared
// by nobody else: use it for one process, for tests, and as the stand-in while a
// database is away.
//
// # Bounded
//
// A store holds at most MaxKeys records. When a new one needs room, what has
// lapsed goes first, since it means no more than no record at all; then, the
// record that is nearest to lapsing, which has the least left to tell. So a flood of keys
// that are seen once, each owing little, pushes out its own and not
// the keys that are being throttled, as dropping the least recently used would:
//
//	throttled key  |================ waits ================>|   kept to the end
//	flood            |=>| |=>| |=>| |=>| |=>| |=>| |=>| |=>|    dropped, nearest first
//
// [Stats] counts the records that were dropped while they still meant something.
// If that number grows, MaxKeys is too small, or someone is making up keys.
//
// A record takes about 110 bytes for a state of up to 24 bytes, however long
// its key: keys are held as 128-bit hashes under seeds drawn anew in each process, so that
// two of 2^32 keys are confused with a probability of 2^-65, and nobody can
// prepare keys that are. A longer state takes its length and some 80 bytes more.
//
// # Time
//
// Records lapse by the time that comes with each decision ([storage.Timed],
// [storage.InPlace]), never by a clock of the store's own, so limits on virtual time
// are exact. Only the plain methods read [Store.Clock]. A lapsed record is absent
// at once; its memory is used again when there is need, or given free by
// [Store.Sweep]. Times before 1970 and after 2262 are as if time stood still there.
package memory
