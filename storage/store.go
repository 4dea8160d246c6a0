package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// Version identifies one write. It is random; 0 means no record.
type Version uint64

// NewVersion returns a version other than 0. The records of one CompareAndSwap may share it; those of two must not.
func NewVersion() Version {
	// A counter would start again after the record expires, so a delayed writer could mistake a new record for an old
	// one. Two random versions are equal with a probability of 2^-64. That does harm only if a swap expects one of the
	// two writes and finds the other under the same key.
	for {
		if v := Version(rand.Uint64()); v != 0 {
			return v
		}
	}
}

// Record is what a store has under a key. The zero Record is an absent key. A stored State may be empty.
type Record struct {
	Version Version
	State   []byte
	// TTL is how long the store will keep the record, by its own clock; 0 means for ever. Only Load sets it, unless documented
	// otherwise.
	TTL time.Duration
}

// MaxKey is the maximum length of a key in bytes.
const MaxKey = 512

// Swap changes the record under one key, if the stored version is Old.
//
//	Old  New.Version
//	0    v            create the record if the key is absent
//	u    v            replace the record; the new state may equal the old one
//	u    0            delete the record, whatever TTL is
//	0    0            change nothing, but require that the key is absent
type Swap struct {
	Key string  // at most MaxKey bytes; see driver.RuleKey
	Old Version // the version that must be stored; 0: none
	New Record  // its version is from NewVersion; the zero Record deletes
	// TTL is how long the store must at least keep the record, by its own clock; 0 means for ever. See driver.KeepFor if the
	// writer's clock is ahead.
	TTL      time.Duration
	Priority Priority
}

// Priority says how much of its limit a key has used. A full store evicts expired records first, then those with a low priority.
type Priority uint8

const (
	UsedLittle Priority = iota // less than half of the limit
	UsedHalf                   // at least half
	UsedMost                   // at least three quarters
	UsedUp                     // all of it, or more
)

// Store loads records and swaps them. It is safe for concurrent use by goroutines and processes. A call may have any number of
// keys.
//
// The caller owns the slices and states that it passes in: a store copies the states, modifies nothing, and reads nothing after
// the call. The caller also owns the returned records, which share no memory.
//
// A store needs no Close: it has no permanent goroutine, and closes no client that it did not open. Its calls return soon after
// their context ends, unless it documents an exception.
//
// # Errors
//
// After ErrContended, retry after a short pause, and after ErrUnavailable when the database is back. Other errors are permanent,
// such as a missing table, unless the context has ended.
//
// If CompareAndSwap fails, the swaps may have been applied, or take effect later, unless the error wraps ErrNotApplied.
type Store interface {
	// Load returns the records of keys with their TTLs. A key may occur several times. An absent or expired key has the zero
	// Record. Each record was in the store at some instant during the call; these instants may differ.
	//
	// now is the time at such an instant, in whole microseconds or finer: by the clock of the database server, or else of the
	// process. Without keys there is no round trip, and now is zero.
	Load(ctx context.Context, keys ...string) (records []Record, now time.Time, err error)

	// CompareAndSwap applies all swaps at one instant of the call, or none. If the database breaks this promise, the error wraps
	// ErrPartialWrite.
	//
	// If a stored version is not Old, there is a conflict, which is not an error. Nothing changes, not even a TTL, and swapped is
	// false. current then has the stored records. They may be newer than the comparison, and even match Old. Otherwise current is
	// nil.
	//
	// If the context has ended before the call, nothing is written. Without swaps, swapped is true and there is no round trip.
	CompareAndSwap(ctx context.Context, swaps ...Swap) (current []Record, swapped bool, err error)
}

// Purger is a store that may keep expired records until you call Purge. Do so about once a minute in one process.
type Purger interface {
	// Purge removes up to max expired records, and returns how many, even with an error. It never removes a record that was
	// written again. If err is nil and removed is below max, no expired records are left, except those that expired during the
	// call or are locked by other transactions. If max is 0 or less, it does nothing. If the context has ended, it returns an error.
	Purge(ctx context.Context, max int) (removed int, err error)
}

// Lister is a store that can list its keys. The store in memory is none, because it keeps only hashes of keys.
type Lister interface {
	// List returns a page of the keys that begin with prefix, and the cursor of the next page, for the same store and prefix. The
	// first cursor is empty, and next is empty on the last page. max is the approximate size of a page, at least 1. A page can be
	// empty even if others follow.
	//
	// A key that is stored during the whole listing is on a page, perhaps on two, unless the store documents an exception. Other
	// keys may be missing.
	List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error)
}
