// Package storage defines what a limiter needs from a database: records under keys, and a compare-and-swap (Store):
//
//	found := Load(keys)
//	next  := decide(found)                  // a pure function
//	CompareAndSwap(keys, found -> next)     // changes all keys or none; after a conflict, start again
//
// Users of a limiter need only the errors.
package storage
