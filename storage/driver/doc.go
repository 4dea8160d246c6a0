// Package driver is for authors of stores. Implement [storage.Store], and test it with package storagetest. If processes share
// the database, also implement [Transactor] or [Server].
//
// A step is a call of Step, Refund or Charge of an [algo.Policy]. A program ([algo.Program]) is these methods in Lua or SQL.
package driver
