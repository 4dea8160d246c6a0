package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Transactor is a store that calls a function under its own lock or in its own transaction, which excludes all
// other writers.
type Transactor interface {
	storage.Store

	// Transact runs updates one after the other in one transaction and stores their changes. Each
	// update reads the changes of the updates before it. An update whose Decide returns false changes
	// nothing, and the other updates continue.
	//
	// clock returns the time of the decisions. Transact calls it once, after the transaction has
	// begun. If clock is nil, Transact uses the store's own clock.
	//
	// Records expire by the store's own clock in any case: one TTL after they were written or one TTL
	// after the time of the decision, whichever is later. Each record that Transact writes gets a new version, so
	// transactions and swaps can be mixed.
	//
	// An error of Transact itself applies to all updates. The transaction may have been stored,
	// unless the error wraps ErrNotApplied.
	Transact(ctx context.Context, clock func() time.Time, updates ...*Update) error
}

// Update is one decision in a [Transactor].
type Update struct {
	Items []Item // one for each key; no key occurs twice

	// Decide makes the decision. now is its time. Decide reads Found of each item, and sets Next of those that it changes.
	// It returns whether to store Next. Decide runs once, under the store's lock or in its transaction, so it must be fast
	// and must not call the store.
	//
	// If Decide panics, the panic reaches the caller of the store. The update changes nothing, and the
	// store stays usable.
	Decide func(now time.Time) (ok bool)
}

// Item is a key of an [Update], with its record before and after the decision.
type Item struct {
	Key RuleKey
	// Found is the record of the key with its TTL, and zero if the key is absent. The store sets it before it calls Decide. Decide must
	// not modify it, and must not read it after it has returned.
	Found storage.Record
	// Next is what Decide does to the record. The store makes it zero before it calls Decide, except that State can be an
	// empty slice of the store's memory. Decide may append a new state to it, or replace it. The store copies the
	// new state when Decide returns. A new state must not use the memory of Found. No TTL may be negative, and
	// every Verb and Priority must be known.
	Next Change
}

// Change is the change of one key in an update. The Verb Keep keeps the record and its TTL.
type Change struct {
	Verb Verb

	// The other fields are used only by Put. They mean the same as in storage.Swap. There is no
	// Until: it is the time of the decision plus TTL.
	State    []byte
	TTL      time.Duration
	Priority storage.Priority
}

// Verb is the kind of a [Change].
type Verb uint8

// The verbs of a change.
const (
	Keep   Verb = iota // keep the record
	Put                // store State for TTL
	Delete             // delete the record, if there is one
)
