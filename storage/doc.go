// Package storage defines what a rate limiter needs of a database. A database stores small byte
// states under keys. It needs only a compare-and-swap ([Store]):
//
//	found := Load(keys)
//	next  := decide(found)                  // a pure function
//	CompareAndSwap(keys, found -> next)     // changes all keys or none; after a conflict, start again
//
// To use a limiter you need two things: a Store from one of the packages below this one, and the
// errors of this package. Only authors of stores need package
// [github.com/sluice-go/sluice/storage/driver]. It defines the optional interfaces of a store and
// the encoding of keys.
//
// Some stores do not remove expired records themselves. They implement [Purger], and you schedule
// the calls of Purge.
//
// # Versions
//
// Every write stores a random [Version]. Versions are not counters, because a counter starts again
// when a record expires. A delayed writer could then find its old version on a different record. If
// the reply to a write is lost, the writer recognises its own write by the version.
//
// # Time
//
// After its TTL, a record means the same as an absent record. So a store that removes expired
// records late, or never, is still correct. If a store removes a record early, clients can spend
// that quota again.
//
// A store counts a TTL by its own clock. The clock of a decision may differ from it. So
// [Swap.Until] also gives a time on the clock of the decision. The record is needed until then.
package storage
