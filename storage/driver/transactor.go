package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Transactor is a store that decides inside a transaction, which keeps out all other
// writers.
type Transactor interface {
	storage.Store

	// Transact lets updates decide one after the other in one transaction, and stores what
	// they decided. Each sees what those before it stored. An update that fails alone has
	// changed nothing, and its Err says why; the others go on. Transact sets Now and Err of every
	// update.
	//
	// clock tells the time of the decisions. It is read once, when the transaction has
	// begun; nil means the store's own clock. Records expire by the store's own clock, as
	// after a swap with Until.
	//
	// An error of Transact itself means what one of CompareAndSwap means, for all updates: it
	// is ErrNotApplied, or what the transaction wrote may have been stored. A panic of a Decider
	// passes through Transact, changes nothing, and leaves the store usable.
	Transact(ctx context.Context, clock func() time.Time, updates ...*Update) error
}

// Update is one decision in a [Transactor].
type Update struct {
	Keys    []string // differ
	Decider Decider
	Now     time.Time // set by Transact before it calls Decider
	Err     error     // set by Transact: the error of Decider as it is, or what is wrong with the update
}
