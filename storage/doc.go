// Package storage defines what a rate limiter needs from a database: small records of bytes under
// keys, and a compare-and-swap ([Store]):
//
//	found := Load(keys)
//	next  := decide(found)                  // a pure function
//	CompareAndSwap(keys, found -> next)     // changes all keys or none; after a conflict, start again
//
// To use a limiter you need the errors of this package. You also need a Store from one of the packages
// below this one, unless the limiter keeps its states in its own memory. Only authors of stores need
// package [github.com/sluice-go/sluice/storage/driver]. It defines the optional interfaces of a store
// and the encoding of keys.
//
// Some stores keep expired records. They implement [Purger], and you schedule the calls of Purge.
//
// # Versions
//
// Every write stores a random [Version]. If the reply to a write is lost, the writer can recognise
// its own write by the version, until another write replaces it. A counter would not be safe, because
// it starts again after the record expires. Then a delayed writer could mistake a new record for an
// old one with the same number.
//
// # Time
//
// A limiter needs a record until a certain time by the clock of its decisions. After that time, the
// state of the record has the same meaning as no state. So a store that removes expired records late,
// or never, is still correct. If a store removes a record early, a client can spend the quota of its
// key again.
//
// A store counts a TTL by its own clock, which may differ from the clock of the decisions. So a swap
// has both a TTL and that time ([Swap.Until]).
package storage
