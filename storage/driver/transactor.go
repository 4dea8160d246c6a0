package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Transactor is a store that decides in Go, under a lock or in a transaction that excludes all other writers.
type Transactor interface {
	storage.Store

	// Transact runs updates in order in one transaction, and stores the changes of those whose Decide returns true. Each update
	// reads the changes of those before it.
	//
	// Transact calls clock once, after the transaction has begun, for the time of the decisions. nil means the store's own clock.
	// By that clock, a record expires one TTL after its write or the time of the decision, whichever is later. Each written
	// record gets a new version.
	//
	// An error applies to all updates. They may have been stored, unless it wraps ErrNotApplied. If a Decide calls
	// runtime.Goexit, a store that several processes share stores none of them.
	Transact(ctx context.Context, clock func() time.Time, updates ...*Update) error
}

// Update is one decision in a [Transactor].
type Update struct {
	Items []Item // with different keys

	// Decide reads Found of the items, sets Next, and returns whether to store Next. It runs once, under the lock or in the
	// transaction, so it must be fast and must not call the store. If it panics, the panic reaches the caller, the update changes
	// nothing, and the store stays usable.
	Decide func(now time.Time) (ok bool)
}

// Item is a key of an [Update], with its record.
type Item struct {
	Key RuleKey
	// Found is the record with its TTL. Decide must not modify it, or use it after it returns.
	Found storage.Record
	// Next is zero before Decide, but State may be an empty slice of the store's memory. Decide may append to it or replace it,
	// but not by memory of Found. The store copies it when Decide returns.
	Next Change
}

// Change is the change of one key.
type Change struct {
	Verb Verb

	// For Put, as in storage.Swap, but the TTL must also pass by the clock that decides.
	State    []byte
	TTL      time.Duration
	Priority storage.Priority
}

// Verb is the kind of a [Change].
type Verb uint8

const (
	Keep   Verb = iota // keep the record and its TTL
	Put                // store State for TTL
	Delete             // delete the record, if there is one
)
