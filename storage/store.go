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

// Swap replaces what is stored under one key, provided that it still is what the
// writer saw.
//
//	Old  New.Version
//	0    v            create the record, if there is none
//	u    v            replace the record, if it is the one written as u, also by the same state
//	u    0            delete the record, if it is the one written as u
//	0    0            change nothing, but require that there is no record
type Swap struct {
	Key string  // any bytes, at most MaxKey of them; see AppendKey
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
// A call may have any number of keys, and a batch any number of groups: an [Engine]
// writes up to 1024 decisions at once, each with keys of its own. Where the database takes
// fewer, it is for the store to find another way.
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

// Batcher is a store that can try many independent groups of swaps in one round
// trip.
type Batcher interface {
	Store

	// CompareAndSwapBatch tries each group as [Store.CompareAndSwap] would, and answers in
	// the order of groups. Each group applies or fails on its own; groups may take effect in
	// any order, at different instants. No key may occur twice, in one group or in two: then
	// nothing is tried and every outcome is [ErrDuplicateKey]. Other wrongly asked
	// groups fail alone.
	CompareAndSwapBatch(ctx context.Context, groups ...[]Swap) []Outcome
}

// Parallel is a [Batcher] that knows how many round trips at once it gains by. They
// are dear: worth a moment's wait if more can share one.
type Parallel interface {
	Batcher

	// InFlight is that number. Beyond it they would wait for each other in the
	// database, where more could be in one instead. It is 0 where every call must be
	// made by the goroutine that asks, as in a transaction of the caller: then nothing
	// is combined or shared. A negative number says nothing, and an [Engine] takes
	// DefaultInFlight: none under way at all would be no engine.
	InFlight() int
}

// Series is a store on which calls that follow each other at once are cheaper if it is told.
type Series interface {
	Store

	// Series begins a series of calls, made one at a time with contexts that derive from
	// the one it returns. The store may keep what they share, such as a connection, from
	// one to the next; end gives it back, after the last.
	Series(ctx context.Context) (calls context.Context, end func())
}

// Outcome is the answer to one group of a batch: the results of CompareAndSwap.
type Outcome struct {
	Current []Record
	Swapped bool
	Err     error
}

// Clock is a store that can tell the time of its server, so that processes whose
// clocks disagree can decide by one clock.
type Clock interface {
	// Now is the server's time at some instant of the call. It may step back when the
	// server's clock is set, or another server takes over.
	Now(ctx context.Context) (time.Time, error)
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

// Timed is a store that needs no clock, because its records lapse by the time that
// comes with each call: that of the decision. Limits on virtual time are then
// exact, whatever a wall clock does. Whoever has the time of the decision must use
// these methods and not the plain ones, which read a clock of their own.
type Timed interface {
	Store

	// LoadAt is Load at now: a record whose TTL has ended by then is absent.
	LoadAt(ctx context.Context, now time.Time, keys ...string) ([]Record, error)
	// CompareAndSwapAt is CompareAndSwap at now: TTLs are counted from now. A record that
	// has an Until is absent only at times at which its TTL and its Until have both passed.
	CompareAndSwapAt(ctx context.Context, now time.Time, swaps ...Swap) (current []Record, swapped bool, err error)
}

// InPlace is a store in the memory of this process, where deciding under its lock is
// cheaper than swapping and trying again.
type InPlace interface {
	Store

	// Update lets d decide on the states of keys while nobody else can change them, and
	// stores what d decided, all of it. Times are as in [Timed]. A key twice is refused with
	// [ErrDuplicateKey]. Records written have fresh versions, so that updates and
	// swaps may be mixed.
	//
	// An error of d is returned as it is. Whatever the error of Update, nothing is
	// changed. Changes with an unknown verb, or that put with a negative TTL, are refused
	// with [ErrSwap]; see [CheckChanges].
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
	TTL   time.Duration // of Put; see Swap.TTL. Until is the time of the decision plus TTL

	Priority Priority // of Put; see Swap.Priority
}

// Verb is what a [Change] does.
type Verb uint8

// The verbs of a change.
const (
	Keep   Verb = iota // leave the key as it is
	Put                // store State, with TTL
	Delete             // remove the record, if there is one
)
