package storage

import (
	"context"
	"time"
)

// Record is what a store keeps under one key. The zero Record stands for a key
// that is absent. A record that is there has a Version other than zero, and any
// State, the empty one included.
type Record struct {
	Version Version
	State   []byte
}

// MaxKey is the length, in bytes, of the longest key that every store must take.
const MaxKey = 512

// Swap replaces what is stored under one key, provided that it still is what the
// writer saw.
//
//	Old  New.Version
//	0    v            create the record, if there is none
//	u    v            replace the record, if it is the one written as u, also by the same state
//	u    0            delete the record, if it is the one written as u
//	0    0            change nothing, but require that there is no record
type Swap struct {
	Key string  // any bytes, at most MaxKey of them; see driver.AppendKey
	Old Version // what must be stored for the swap to apply; 0: nothing
	New Record  // what takes its place: a version from NewVersion, or the zero Record to delete
	// TTL is how long the store must keep the record, counted from the write by the
	// store's clock. 0 keeps the record for ever. A store rounds up to its own grain,
	// never down, and may keep records longer.
	TTL time.Duration
	// Until is the time until which the record is needed, by the clock of the writer. The
	// store keeps the record until its TTL has passed and its own clock has passed Until. So
	// a record of a writer whose clock is ahead of the store's outlives its TTL. The zero
	// Until, and one in the past, means the TTL alone.
	//
	// A swap that applies replaces both the TTL and the Until that the key had. The TTL and
	// the Until of a deletion mean nothing.
	Until time.Time
	// Priority is what a store that holds a bounded number of records goes by when it must
	// evict one. All others ignore it.
	Priority Priority
}

// Priority says how much of its limit the state of a record has used. If a store must evict
// a record, it takes one with the lowest priority. A key that has used up its limit
// must stay: without its record it could spend the whole limit again.
type Priority uint8

// The priorities of a record.
const (
	UsedLittle Priority = iota // less than half of the limit
	UsedHalf                   // at least half
	UsedMost                   // at least three quarters
	UsedUp                     // all of it, or more
)

// Store keeps records and swaps them. It may be used from any number of
// goroutines and processes at once; each call takes effect at one instant between
// its start and its return.
//
// Keys and states handed in belong to the caller: a store reads them until the
// call returns, not later, keeps copies, and modifies nothing. Records handed out
// belong to the caller, who may modify their states and append to them: no two share
// memory.
//
// A call may have any number of keys. If the database takes fewer in one statement, the store
// must find another way.
//
// A store runs no goroutine of its own, closes no client that it did not open, and
// needs no closing itself. Every call ends soon after its context does, even where
// the client would wait on.
//
// # Errors
//
// An error never means a conflict, and a conflict is never an error. What was
// asked wrongly is refused with [ErrKey], [ErrDuplicateKey] or [ErrSwap]. Other
// failures say, through the error they wrap, whether trying again can help:
// [ErrContended] (at once, after a pause), [ErrUnavailable] (when the database is
// back); an error with neither is a fault that stays, such as a missing table.
//
// Of a failed CompareAndSwap there is a second thing to know: was it applied? An
// error for which errors.Is(err, [ErrNotApplied]) holds proves that it was not and
// never will be. Any other error leaves that open, and the swap may even take
// effect after the call returned.
type Store interface {
	// Load reads the records of keys, in the order of keys, which may repeat. An absent or
	// expired key is the zero Record. Each record is one that was stored at one
	// instant; different keys may be read at different instants.
	Load(ctx context.Context, keys ...string) ([]Record, error)

	// CompareAndSwap applies every swap or none, in one instant.
	//
	// If any Old is not what is stored, nothing changes, TTLs included: swapped is
	// false, err is nil, and current holds what is stored under the key of each swap,
	// in their order. It was read when the comparison failed or later, so it is a good
	// start for the next attempt and no promise about it: after a race it may even equal
	// what was asked for.
	// When swapped is true, or err is not nil, current is nil.
	//
	// A context that has ended before the call writes nothing. No swaps at all swap
	// trivially, without a round trip.
	CompareAndSwap(ctx context.Context, swaps ...Swap) (current []Record, swapped bool, err error)
}

// Purger is a store whose expired records stay until they are removed by a call,
// which the user schedules.
type Purger interface {
	// Purge removes up to max expired records and says how many it removed. It never
	// removes a record that has been written again since it expired. Fewer than max
	// means that no more had expired when the call began. It is safe to call from several
	// processes at once. With a max of 0 or less, or a context that ended before the call, it
	// removes nothing; of these, only the context's end is an error. If it fails later, it
	// returns the error and how many records it has removed.
	Purge(ctx context.Context, max int) (removed int, err error)
}
