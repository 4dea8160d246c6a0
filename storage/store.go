package storage

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Version identifies one write. No stored record has the version zero. Versions are 64-bit
// random numbers without an order.
type Version uint64

// NewVersion returns a random version for a new write. It is never zero. Records written by one
// CompareAndSwap may share a version, but those of two calls must not. Two writes get the same version
// with a probability of 2^-64. This does harm only if a swap expects the record of one and finds that of
// the other under the same key.
func NewVersion() Version {
	for {
		if v := Version(rand.Uint64()); v != 0 {
			return v
		}
	}
}

// Record is the content of a store under one key. The zero Record stands for an absent key. A
// stored record has a Version other than zero and any State, which may be empty.
type Record struct {
	Version Version
	State   []byte
	// TTL is how long the store will keep the record, by its own clock. 0 means for ever. Load sets it. Elsewhere it has no
	// meaning, unless the documentation says so.
	TTL time.Duration
}

// MaxKey is the length in bytes of the longest key that every store must accept.
const MaxKey = 512

// Swap changes the record under one key, if the stored version is Old.
//
//	Old  New.Version
//	0    v            create the record if the key is absent
//	u    v            replace the record if its version is u; the new state may equal the old one
//	u    0            delete the record if its version is u
//	0    0            change nothing, but require that the key is absent
type Swap struct {
	Key string  // any bytes, at most MaxKey of them; see driver.RuleKey
	Old Version // the version that must be stored; 0 requires an absent key
	New Record  // the new record, with a version from NewVersion; the zero Record deletes
	// TTL is how long the store must keep the record, from the call on and by the store's clock. 0
	// keeps the record for ever. A store may round the TTL up or add a margin, but never shortens it.
	TTL time.Duration
	// Until is the time until which the record is needed, by the clock of the writer: usually the
	// time of the decision plus TTL. The store keeps the record until its TTL has passed and the
	// store's clock has passed Until. So the record lives longer than its TTL if the writer's clock
	// is ahead of the store's clock. A zero or past Until has no effect. When a swap is applied, its
	// TTL and Until replace the earlier ones of the key. A deletion ignores both.
	Until time.Time
	// Priority decides which record a full store evicts. Stores without a bound ignore it.
	Priority Priority
}

// Lifetime is for stores that compute the expiry in Go. It returns how long the store must keep the
// new record: TTL, or the time from now (by the store's clock) to Until if that is longer. 0 means for
// ever.
func (s *Swap) Lifetime(now time.Time) time.Duration {
	left := s.Until.Sub(now)
	if s.TTL == 0 || left == math.MaxInt64 { // Sub saturates, so Until may be even later
		return 0
	}
	return max(s.TTL, left)
}

// FarUntil is the result of [Swap.UntilUnix] if the number of units is above 2^53.
const FarUntil = math.MaxInt64

// UntilUnix is for stores whose database server computes the expiry. It returns Until as a number
// of units since 1970, rounded up. unit must divide a second. For an Until before 1970, such as the
// zero Until, it returns 0. The server may compute in doubles, so UntilUnix returns FarUntil for a
// number above 2^53. The store then keeps the record for ever.
func (s *Swap) UntilUnix(unit time.Duration) int64 {
	sec, perSecond := s.Until.Unix(), int64(time.Second/unit)
	switch {
	case sec < 0:
		return 0
	case sec >= 1<<53/perSecond:
		return FarUntil
	}
	return sec*perSecond + (int64(s.Until.Nanosecond())+int64(unit)-1)/int64(unit)
}

// Priority states how much of its limit a key has used. A full store evicts expired records first,
// and then records with a low priority. If it evicts the record of a key that has used up its
// limit, that key can spend the whole limit again.
type Priority uint8

// The priorities of a record.
const (
	UsedLittle Priority = iota // less than half of the limit
	UsedHalf                   // at least half
	UsedMost                   // at least three quarters
	UsedUp                     // all of it, or more
)

// Store loads records and swaps them. Any number of goroutines and processes may use it
// concurrently. A CompareAndSwap without an error takes effect at one instant between its start and
// its return. A call may have any number of keys. If the database accepts fewer in one statement, the
// store must split the call and still keep its promises.
//
// The caller owns the slices and states that it passes in. A store does not modify them, and stores
// copies, so it does not read them after the call returns. A key is an ordinary string, which never
// changes, so a store may keep it. The caller also owns the records that a store returns. It may modify
// their states and append to them: no two of them share memory.
//
// A store needs no Close. It has no permanent goroutine, and it closes no client that it did not
// open. Load and CompareAndSwap return soon after their context ends, even if the database client
// would wait longer. A store documents any exception.
//
// # Errors
//
// A conflict (the stored version is not Old) is not an error, and a store never reports one by an
// error. For invalid arguments a store returns [ErrKey], [ErrDuplicateKey] or [ErrSwap]. Other errors
// show whether a retry can help. After [ErrContended], retry after a short pause. After
// [ErrUnavailable], retry when the database is back. If the error wraps neither and the context has not
// ended, a retry does not help: for example, a table is missing.
//
// If CompareAndSwap fails, the error also shows whether the swaps were applied. An error that wraps
// [ErrNotApplied] proves that they were not applied and never will be. After any other error they
// may have been applied, and they may even take effect after the call has returned.
type Store interface {
	// Load returns the records of keys with their TTLs, in the order of keys. A key may occur several times. The
	// record of an absent or expired key is zero. Each record was in the store at some instant
	// during the call, but the instants may differ between keys.
	//
	// now is the time of the store's clock at such an instant, in whole microseconds or finer. If the database server has
	// a clock, it is that one. Without keys there is no round trip, and now is zero.
	Load(ctx context.Context, keys ...string) (records []Record, now time.Time, err error)

	// CompareAndSwap applies all swaps at one instant, or none of them. If the database breaks this
	// promise, the error wraps ErrPartialWrite.
	//
	// If the stored version of any key is not its Old, there is a conflict. Then nothing changes,
	// TTLs included. swapped is false, err is nil, and current holds the stored record of each
	// swap's key, in the order of swaps. Use these records for the next attempt. They were read
	// when the comparison failed, or later. If another call writes between the comparison and that
	// read, the records can even match the Old versions. If swapped is true or err is not nil,
	// current is nil.
	//
	// If the context has ended before the call, nothing is written. Without swaps, swapped is true
	// and there is no round trip.
	CompareAndSwap(ctx context.Context, swaps ...Swap) (current []Record, swapped bool, err error)
}

// Purger is a store that may keep expired records until Purge removes them. The user schedules the
// calls.
type Purger interface {
	// Purge removes up to max expired records and returns how many it removed. It never removes a
	// record that was written again after it expired. If err is nil and removed is below max, all
	// records that had expired when the call began are removed, except those that other
	// transactions have locked. Several processes may call it concurrently.
	//
	// If max is 0 or less, Purge removes nothing and returns no error. If the context has ended,
	// Purge removes nothing and returns an error. If Purge fails later, it returns the error and
	// the number of records that it has removed.
	Purge(ctx context.Context, max int) (removed int, err error)
}
