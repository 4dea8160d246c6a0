package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Transactor is a store that decides inside a transaction. The transaction excludes all other
// writers.
type Transactor interface {
	storage.Store

	// Transact runs updates one after the other in one transaction and stores their changes. Each
	// update reads the changes of the updates before it. Transact sets Now and Err of every update.
	// If only one update fails, it changes nothing, and the others continue.
	//
	// clock returns the time of the decisions. Transact calls it once, after the transaction has
	// begun. If clock is nil, it uses the store's own clock. A record expires when its TTL has passed by
	// the store's own clock, and that clock has passed the time of the decision plus the TTL.
	//
	// An error of Transact itself applies to all updates. It means the same as an error of
	// CompareAndSwap: unless it wraps ErrNotApplied, the transaction may have been stored. If a
	// Decider panics, the panic reaches the caller. Nothing is changed, and the store stays usable.
	Transact(ctx context.Context, clock func() time.Time, updates ...*Update) error
}

// Update is one decision in a [Transactor].
type Update struct {
	Keys    []string // without duplicates
	Decider Decider
	Now     time.Time // set by Transact before it calls Decider
	Err     error     // set by Transact: the error of Decider unchanged, or why the update is invalid
}
