// Package driver has what authors of stores need beyond package storage. Users of stores do not
// need it.
//
// # Writing a store
//
// Implement [storage.Store], and begin CompareAndSwap with [Check]. Mark errors as the variables
// of package storage say. Let package storagetest judge the result: it also holds the laws of the
// optional interfaces. For a database that is shared by several processes, implement [Server]
// or [Transactor] next: swaps lose whenever another process wrote in between.
//
// # Optional interfaces
//
// A store may be able to do more than swap. A limiter finds out by type assertion, and decides in
// the quickest way:
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
//
// A server that runs the same [Batch] again recognises by the version which records it has written.
// An [InPlace] store has no clock in updates: records expire by the time of the decision.
//
// # Keys
//
// [AppendKey] encodes the group, the rule and the user's key of a record into one key. [KeyGroup],
// [RuleOfKey] and [CutKey] read parts of it.
package driver
