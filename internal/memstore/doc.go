// Package memstore implements memory.Store: records in the memory of this process, with a bounded number
// of records for each rule. The comment of package storage/memory documents its promises.
//
// Package compose locks a record with [Store.Lock] and decides on it with a [Cell]. This does not
// allocate. Compose hashes the common prefix of a rule's keys once, as a [Prefix].
package memstore
