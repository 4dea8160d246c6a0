package driver

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Server is a store whose database runs the steps of policies itself, so that a decision
// takes one round trip whatever other processes do.
type Server interface {
	storage.Store

	// Run decides batches in one round trip, each of them in one instant. The batches share no
	// keys; each succeeds or fails alone, and Run sets the fields of Batch that hold its
	// outcome. An error in Batch.Err means what one of CompareAndSwap means; see [storage.Store].
	//
	// The context of Run has a deadline. It is cancelled before only if it is that of the one
	// caller of a batch, so a store need not notice that at once.
	Run(ctx context.Context, batches ...*Batch)

	// Runs reports whether the database can run a program. A caller must not put another one
	// into a batch.
	Runs(p *algo.Program) bool
}

// Placer is a [Server] whose keys may lie on several servers.
type Placer interface {
	Server

	// Place returns where keys are kept. Only requests with the same shard and slot may share
	// a batch; shard names the server, as far as it is known. An error means that the keys
	// cannot be decided together.
	Place(keys ...string) (shard, slot string, err error)
}

// ServerTime is a store whose server tells the time, so that processes whose clocks disagree
// decide by one clock.
type ServerTime interface {
	// LoadNow is Load, and also returns the server's time at some instant of the call.
	LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error)
}

// MaxRoundTrips is a store that knows how many round trips at once it gains by: further ones
// would wait for each other in the database. It is 0 if every call must be made by the
// goroutine that asks, as in a transaction of the caller: then no requests are batched.
type MaxRoundTrips interface{ MaxRoundTrips() int }

// Batch is a list of requests that a [Server] decides in their order, in one instant.
//
// The server reads every key once, and decides each request on the states that those before
// it left. Then it writes each key whose state has changed, once, with the version of the
// batch. The TTL of a record is what the program said, counted from Now by the server's
// clock as [storage.Swap.Until] is, plus Margin.
type Batch struct {
	// Version is drawn at random for every batch. Records that the batch writes carry it. If
	// the reply is lost, the same batch is run again with the same version: a record that
	// carries it was written by the batch already, and its requests are not decided again.
	Version storage.Version
	// Now is the time of the decisions; zero means the server's clock, read in the same round trip.
	Now      time.Time
	Margin   time.Duration
	Keys     []string // differ
	Programs []*algo.Program
	Requests []Request

	// What follows is set by Run. It means nothing if Err is set.

	Err error
	At  time.Time // the time of the decisions
	// Found is what was stored under each key before the batch, its version included. The zero
	// Record is an absent key.
	Found []storage.Record
	// KeyErr is nil, or says of each key why the database could not read or write it. Nothing was
	// written under such a key. Requests that use it have failed, but others of their
	// keys may have been written unless the error is ErrNotApplied.
	KeyErr []error
}

// Request is one request of a batch, or several equal ones.
type Request struct {
	Uses  []Use
	Times int // how many equal requests this is, one after the other; above 1 only with one use
	// Applied is set by Run: how many steps were applied, of all uses and times, or one of the
	// negative outcomes below. A request that an enforced use denies applies no step. Otherwise
	// each use that allows it applies one step. A Refund and a Charge apply one, a Peek and a
	// Reset none.
	Applied int
}

// The outcomes of a request that was not decided. It has changed nothing.
const (
	Damaged  = -1 // the program cannot read the state of an enforced use
	Declined = -2 // a number is too large for the program: the step must run in Go
	Stored   = -3 // a key of it carries the version of the batch: an earlier try was stored
)

// Use is what a request asks of one key. A request uses a key once.
type Use struct {
	Key     int // index in Batch.Keys
	Program int // index in Batch.Programs; of Allow, Refund and Charge
	Op      Op
	Shadow  bool  // the use denies nothing; if the program cannot read its state, it is left out
	Cost    int64 // at least 1 and below algo.MaxExact; of Allow, Refund and Charge
}

// Op is what a use does with the state of its key.
type Op uint8

// The operations.
const (
	Allow  Op = iota // take the cost if it is there
	Refund           // give back the cost, up to full
	Charge           // take the cost, unconditionally
	Peek             // only read the state
	Reset            // delete the record
)
