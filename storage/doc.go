// Package storage is the contract between limits and the databases that keep
// their states. It knows bytes, not limits: a [Store] is a compare-and-swap over
// small records, and nothing more is asked of a database.
//
//	found    := Load(keys)                       // or remembered, or taken to be absent
//	next     := decide(found)                    // pure, may run again
//	CompareAndSwap(keys, found -> next)          // all of them, or none
//
// Because the comparison is part of the write, what was decided on stale states is
// never stored: the writer learns what is there now and decides again.
//
// # Versions
//
// Every write carries a [Version] drawn at random. It is short to send and to
// compare. A counter would not do: it starts again when a record expires, so that
// a writer who slept through the expiry finds "its" version on another record. And
// after a lost reply a writer recognises its own write by it.
//
// # Time
//
// Expiry is housekeeping, never meaning. A record's TTL ends when its state has
// become worth no more than no state at all, so a store that drops it late, or
// never, is still correct; one that drops it early forgets what was used.
//
// # Writing a store
//
// Implement [Store], begin CompareAndSwap with [Check] and CompareAndSwapBatch with
// [BeginBatch], mark errors as the variables of this package say, and let package
// storagetest judge the result. The further abilities, [Batcher], [Clock], [InPlace],
// [Parallel], [Purger], [Series] and [Timed], are optional: each is an interface of its
// own, found by assertion.
package storage
