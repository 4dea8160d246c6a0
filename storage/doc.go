// Package storage is the contract between limits and the databases that keep their states. A
// database keeps small records of bytes under keys. The least that is asked of it is a
// compare-and-swap ([Store]):
//
//	found    := Load(keys)
//	next     := decide(found)                    // a pure function
//	CompareAndSwap(keys, found -> next)          // all of them, or none; after a conflict, again
//
// # Optional interfaces
//
// A store may be able to do more. A limiter finds out by assertion, and decides in the quickest
// way:
//
//	InPlace     decides in Go, under a lock of the store in this process
//	Transactor  decides in Go, inside a transaction that keeps out other writers
//	Server      decides on the server of the database, many requests in one round trip
//
// Others say more about a store:
//
//	Placer         says which requests may share a round trip, if there are several servers
//	ServerTime     tells the time of the server
//	MaxRoundTrips  says how many round trips at once are worthwhile
//	Purger         removes expired records
//
// # Versions
//
// Every write carries a [Version] drawn at random. A counter would not do: it starts again when
// a record expires, so a writer that was delayed until after the expiry would find its version
// on another record. After a lost reply, a writer recognises its own write by the version, and
// so does a server that runs the same [Batch] again.
//
// # Time
//
// A record's TTL ends when its state is worth no more than no state at all. So a store that drops
// a record late, or never, is still correct. If a store drops a record early, clients can spend that
// quota again.
//
// A store counts a TTL by its own clock, and a decision may be made by another clock. So a swap
// also says until when the record is needed by the clock of the decision ([Swap.Until]).
// An [InPlace] store has no clock in updates: records expire by the time of the decision.
//
// # Writing a store
//
// Implement [Store], and begin CompareAndSwap with [Check]. Mark errors as the variables of this
// package say. Let package storagetest judge the result: it also holds the laws of the
// optional interfaces. For a database that is shared by several processes, implement [Server]
// or [Transactor] next: swaps lose whenever another process wrote in between.
package storage
