// Package memstore is the table of a memory.Store: records in the memory of this process, a bounded
// number for each rule. What it promises stands at package storage/memory.
//
// Package compose locks one record ([Store.Lock]) and decides on it ([Cell]) without an allocation.
// It hashes what the keys of a rule have in common once ([Prefix]).
package memstore
