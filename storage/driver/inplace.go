package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// InPlace is a store in the memory of this process, where deciding under its lock is
// cheaper than swapping and trying again.
type InPlace interface {
	storage.Store

	// Update lets d decide on the states of keys while nobody else can change them, and
	// stores what d decided, all of it. For an update it is now, whatever any clock says: a
	// record whose TTL has ended by then is absent, and TTLs are counted from now. A key
	// twice is refused with [storage.ErrDuplicateKey]. Records written have fresh versions, so that
	// updates and swaps may be mixed.
	//
	// An error of d is returned as it is. Whatever the error of Update, nothing is
	// changed. Changes with an unknown verb, or that put with a negative TTL, are refused
	// with [storage.ErrSwap]; see [CheckChanges].
	Update(ctx context.Context, now time.Time, keys []string, d Decider) error
}

// Decider decides inside an [InPlace] store.
type Decider interface {
	// Decide runs once, under the store's lock: it must be quick and must not call the
	// store. found[i] is the state of keys[i], nil when the key is absent and only then; it may be
	// read during the call and not modified. next has the same length, every element the zero
	// Change; Decide sets those that it wants. The states it puts there are copied when it
	// returns; they must not be memory of found.
	//
	// A panic passes through Update, changes nothing, and leaves the store usable.
	Decide(found [][]byte, next []Change) error
}

// Change is what becomes of one key in an update. The zero Change keeps it as it
// is, TTL included.
type Change struct {
	Verb  Verb
	State []byte        // of Put
	TTL   time.Duration // of Put; see storage.Swap.TTL. Until is the time of the decision plus TTL

	Priority storage.Priority // of Put; see storage.Swap.Priority
}

// Verb is what a [Change] does.
type Verb uint8

// The verbs of a change.
const (
	Keep   Verb = iota // leave the key as it is
	Put                // store State, with TTL
	Delete             // remove the record, if there is one
)
