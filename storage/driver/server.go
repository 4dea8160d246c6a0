package driver

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Server is a store whose database server decides many requests in one round trip.
type Server interface {
	storage.Store

	// Run decides all batches, which share no key. Each succeeds or fails by itself. Batch.Err means the same as an error of
	// CompareAndSwap. Run must return by ctx's deadline, and may ignore an earlier cancellation.
	Run(ctx context.Context, batches ...*Batch)

	// Runs reports whether the database can run a program. The answer must not change.
	Runs(p *algo.Program) bool

	// Place returns where the keys of one request are stored, or an error if they cannot be decided together. Requests with the
	// same server may share a round trip, and with the same slot also a batch. Both are "" if there is one server.
	Place(keys ...string) (server, slot string, err error)
}

// Batch is a list of requests that a [Server] decides one after the other, for the same time. It writes only changed states. By
// the server's clock, a record expires after its TTL plus Margin, counted from its write or the time of the decisions, whichever
// is later.
type Batch struct {
	Version storage.Version // of the written records; new for every batch
	// Now is the time of the decisions; zero means the clock of the server, without another round trip.
	Now      time.Time
	Margin   time.Duration
	Keys     []string // no duplicates
	Requests []Request

	// Run sets the fields from here on. If Err is not nil, the others have no meaning.
	Err error
	At  time.Time // the time of the decisions
	// Found has the record of each key before the batch. Its TTL is needed only after a denied Allow.
	Found []storage.Record
	// KeyErr is nil, or has an error or nil for each key. Nothing was written under a key with an error, and its requests have
	// failed. They may have written their other keys, unless the error wraps ErrNotApplied. If it also wraps ErrContended, the
	// limiter sends them again when a CompareAndSwap of the key that deletes no record succeeds or conflicts.
	KeyErr []error
}

// Programs returns the different programs of the uses.
func (b *Batch) Programs() (programs []*algo.Program) {
	for i := range b.Requests {
		for j := range b.Requests[i].Uses {
			if p := b.Requests[i].Uses[j].Program; IndexOfProgram(programs, p) < 0 {
				programs = append(programs, p)
			}
		}
	}
	return programs
}

// IndexOfProgram returns the index of a program equal to p, or -1.
func IndexOfProgram(programs []*algo.Program, p *algo.Program) int {
	if i := slices.Index(programs, p); i >= 0 { // the usual case, and faster
		return i
	}
	return slices.IndexFunc(programs, p.Equal)
}

// Request is one request of a batch, or several equal ones.
type Request struct {
	Uses  []Use
	Times int // the number of equal requests; above 1 only if all uses are an Allow
	// Applied is set by Run: the number of applied steps of all uses and equal requests, or [Damaged] or [Declined]. An equal
	// request that a use without Shadow denies applies none. Otherwise each Allow with enough units, each Refund and each Charge
	// applies one, unless it is skipped.
	Applied int
}

// The values of [Request].Applied for a request that the [Server] did not decide. It has changed nothing.
const (
	Damaged  = -1 // a program cannot read the state of a Use without Shadow
	Declined = -2 // swaps must decide it, for instance on a state of another limit
)

// Use is one operation of a request, on a key of its own.
type Use struct {
	Key     int // index into Batch.Keys
	Op      Op
	Shadow  bool          // never denies; skipped if the program cannot read its state
	Cost    int64         // from 1 to algo.MaxLevel
	Program *algo.Program // one for which Server.Runs is true
}

// Op is an operation. A [Server] runs the first three.
type Op uint8

const (
	Allow  Op = iota // take the cost if it is available
	Refund           // return the cost, but no more than is in use
	Charge           // take the cost, even if it is not available
	Peek             // only read the state
	Reset            // delete the record
)
