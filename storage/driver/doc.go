// Package driver defines the interfaces and helpers that authors of stores need beyond package
// storage. Users of stores do not need it.
//
// # Writing a store
//
// Implement [storage.Store], and call [BeginSwap] first in CompareAndSwap. Wrap errors as the
// variables of package storage describe. Test the store with package storagetest, which also
// tests the optional interfaces. If several processes share the database, also implement [Server]
// or [Transactor]: swaps conflict whenever another process writes between Load and
// CompareAndSwap.
//
// # Optional interfaces
//
// A policy ([algo.Policy]) is an algorithm with its options. A step is a call of one of its methods
// Step, Refund and Charge. A program ([algo.Program]) is these methods in Lua or SQL.
//
// A limiter finds the optional interface of a store by type assertion:
//
//	Transactor  decides in Go, under a lock or in a transaction that excludes other writers
//	Server      decides on the database server, many requests in one round trip
//
// # Keys
//
// [RuleKey] has the parts of the key of a record, and documents the text that a store gets as the key. [ParseKey] reads the parts
// from a text.
package driver
