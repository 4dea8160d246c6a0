package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Server is a store whose database server runs the steps of policies. A decision normally takes one
// round trip, even if other processes write the same keys.
type Server interface {
	storage.Store

	// Run decides all batches, if possible in one round trip. All decisions of a batch have the
	// same time. No two batches may have a key in common. Each batch succeeds or fails
	// independently of the others. Run sets the result fields of each batch. Batch.Err means the
	// same as an error of CompareAndSwap; see [storage.Store].
	//
	// ctx has a deadline, and Run must return by then. It may ignore an earlier cancellation.
	Run(ctx context.Context, batches ...*Batch)

	// Runs reports whether the database can run a program. A batch may contain only programs that
	// the database can run.
	Runs(p *algo.Program) bool

	// Place returns where the keys of one request are stored. Requests with the same server, even the empty one, may share a
	// round trip. If they also have the same slot, they may share a batch. A database on one server returns "" for both.
	// Place returns an error if the keys cannot be decided together.
	Place(keys ...string) (server, slot string, err error)
}

// Batch is a list of requests that a [Server] decides one after the other, all for the same time.
//
// The database server reads every key once. Each request is decided on the states that the requests
// before it left. Then the server writes each key whose state has changed, once, with the version
// of the batch. The TTL of a record is the TTL that the program returned plus Margin. By the
// server's clock, a record expires one TTL after it was written or one TTL after the time of the
// decisions, whichever is later.
type Batch struct {
	Version storage.Version // of the records that the batch writes; random, and different for every batch
	// Now is the time of the decisions. If it is zero, the database server reads its own clock in
	// the same round trip.
	Now      time.Time
	Margin   time.Duration // added to the TTLs
	Keys     []string      // without duplicates
	Programs []*algo.Program
	Requests []Request

	// Err and the fields below are set by Run. If Err is not nil, the other ones have no meaning.
	Err error
	At  time.Time // the time of the decisions
	// Found holds the records that were stored before the batch, one for each key, with their
	// versions. The record of an absent key is zero. Found has the TTLs of the keys of an Allow that was denied. The limiter
	// needs them to keep a record long enough after its limit was lowered.
	Found []storage.Record
	// KeyErr is nil if all keys could be read and written. Otherwise it has an element for each
	// key: the error, or nil. Nothing was written under a key with an error. A request with
	// such a key has failed. It may have written its other keys, unless the error wraps
	// ErrNotApplied.
	KeyErr []error
}

// Request is one request of a batch, or several equal ones.
type Request struct {
	Uses  []Use
	Times int // the number of equal requests, decided one after the other; above 1 only with one use that is an Allow
	// Applied is set by Run. It is the number of applied steps, summed over the uses and over the
	// equal requests. If the request was not decided, it is [Damaged] or [Declined]. If a use without Shadow denies the
	// request, no step is applied. Otherwise each Allow that has enough units, each Refund and each Charge applies one step,
	// unless it is skipped (see [Use].Shadow).
	Applied int
}

// The values of [Request].Applied for a request that Run of a [Server] did not decide. Run has
// changed nothing for this request.
const (
	Damaged  = -1 // the program cannot read the state of a Use without Shadow
	Declined = -2 // the server cannot decide it, for instance because of a state of another limit: it must be decided by swaps
)

// Use is one operation of a request on one key: Allow, Refund or Charge. The uses of a request have different keys.
type Use struct {
	Key     int // index in Batch.Keys
	Program int // index in Batch.Programs
	Op      Op
	Shadow  bool  // the use never denies; it is skipped if the program cannot read its state
	Cost    int64 // from 1 to algo.MaxLevel
}

// Op is the kind of an operation on one key.
type Op uint8

// The operations. A [Server] runs the first three.
const (
	Allow  Op = iota // take the cost if it is available
	Refund           // return the cost, but no more than is in use
	Charge           // take the cost, even if it is not available
	Peek             // only read the state
	Reset            // delete the record
)
