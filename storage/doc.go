// Package storage is the contract between limits and the databases that keep their states. A
// database keeps small records of bytes under keys. The least that is asked of it is a
// compare-and-swap ([Store]):
//
//	found    := Load(keys)
//	next     := decide(found)                    // a pure function
//	CompareAndSwap(keys, found -> next)          // all of them, or none; after a conflict, again
//
// To use a limiter you need a Store, from one of the packages below this one, and the errors
// here. Package [github.com/sluice-go/sluice/storage/driver] has what only authors of stores
// need: the optional interfaces of a store, and the form of keys.
//
// A [Purger] is a store whose expired records are removed by a call, which you schedule.
//
// # Versions
//
// Every write carries a [Version] drawn at random. A counter would not do: it starts again when
// a record expires, so a writer that was delayed until after the expiry would find its version
// on another record. After a lost reply, a writer recognises its own write by the version.
//
// # Time
//
// A record's TTL ends when its state is worth no more than no state at all. So a store that drops
// a record late, or never, is still correct. If a store drops a record early, clients can spend that
// quota again.
//
// A store counts a TTL by its own clock, and a decision may be made by another clock. So a swap
// also says until when the record is needed by the clock of the decision ([Swap.Until]).
package storage
