package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// InPlace is a store in the memory of this process. A decision under its lock costs less than swaps.
type InPlace interface {
	storage.Store

	// Update locks the records of keys, calls d, and stores all changes that d made. now is the
	// time of the update, whatever the clocks read: a record whose TTL has ended at now is absent,
	// and the TTL of a change starts at now. Every record that Update writes gets a new version, so
	// updates and swaps can be mixed.
	//
	// If Update returns an error, it has changed nothing. It returns an error of d unchanged,
	// [storage.ErrDuplicateKey] if a key occurs twice, and [storage.ErrSwap] for an invalid change;
	// see [CheckChanges].
	Update(ctx context.Context, now time.Time, keys []string, d Decider) error
}

// Transactor is a store that decides inside a transaction. The transaction excludes all other
// writers.
type Transactor interface {
	storage.Store

	// Transact runs updates one after the other in one transaction and stores their changes. Each
	// update reads the changes of the updates before it. Transact sets Now and Err of every update.
	// An update that fails changes nothing, and the other updates continue.
	//
	// clock returns the time of the decisions. Transact calls it once, after the transaction has
	// begun. If clock is nil, Transact uses the store's own clock.
	//
	// Records expire by the store's own clock in any case: one TTL after they were written or one TTL
	// after the time of the decision, whichever is later.
	//
	// An error of Transact itself applies to all updates. The transaction may have been stored,
	// unless the error wraps ErrNotApplied.
	Transact(ctx context.Context, clock func() time.Time, updates ...*Update) error
}

// Update is one decision in a [Transactor].
type Update struct {
	Keys    []string // without duplicates
	Decider Decider
	Now     time.Time // set by Transact before it calls Decider
	Err     error     // set by Transact: the error of Decider unchanged, or why the update is invalid
}

// Decider makes the decision of an [InPlace] store or a [Transactor].
type Decider interface {
	// Decide reads states from found and writes changes to next. It runs once, under the store's
	// lock or in its transaction, so it must be fast and must not call the store.
	//
	// found[i] is the state of keys[i]. It is nil if and only if the key is absent. Decide must not
	// modify found, and must not read it after it has returned. next has the same length, and all
	// its elements are zero. Decide sets only the elements of the keys that it changes. The store
	// copies new states when Decide returns. A new state must not use the memory of found.
	//
	// If Decide panics, the panic reaches the caller of the store. Nothing is changed, and the
	// store stays usable.
	Decide(found [][]byte, next []Change) error
}

// Change is the change of one key in an update. The zero Change keeps the record and its TTL.
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
