package engine

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Request is one decision on the states of some keys. It is for one call of
// [Engine.Decide].
type Request struct {
	Keys      []string // differ
	Uses      []Use    // what is asked of each key
	Evaluator Evaluator

	state    state        // under the lock of the queue
	lost     bool         // the reply of a round trip was lost: the request may have been stored
	declined bool         // the server declined it: it must be decided by swaps
	attempts atomic.Int32 // is read after the caller has left, too
	began    time.Time
	deadline time.Time
	until    time.Time // the deadline of its round trip
	trouble  error     // why the last attempt failed
	err      error
	panicked any
	awaited  bool          // the caller receives from done
	done     chan struct{} // receives once, when state is done

	next, previous *Request // in the queue
	same           *Request // the next equal request of the batch

	update    storage.Update
	states    [][]byte
	changes   []storage.Change
	fewStates [4][]byte
	fewChange [4]storage.Change
}

// Use is what a request asks of one key.
type Use struct {
	Op      storage.Op
	Program *algo.Program // the step on the server; nil if there is none
	Cost    int64
	Shadow  bool
}

// Evaluator decides a request on states. It is called by one goroutine at a time, not
// always the caller's; a panic of it is raised again in Decide.
type Evaluator interface {
	// Evaluate decides at now. states[i] is the state of the i-th key, nil if and only if it is
	// absent; it must not be modified or kept. changes has a zero Change for each key;
	// Evaluate sets those that it wants. It may be called again, on other states and at
	// another time; only the last call counts.
	//
	// applied is how many steps were applied, as storage.Request says. An error is returned to the caller as
	// it is; nothing is stored then.
	Evaluate(now time.Time, states [][]byte, changes []storage.Change) (applied int, err error)

	// Denied reports whether the last Evaluate denied, and for how long from its time it would
	// deny the same request on the same states. Requests stored since cannot have made that false,
	// except those that give back.
	Denied() (retryAfter time.Duration, denied bool)

	// Confirm takes the place of Evaluate if all that is known is that the request was
	// allowed and stored, and that it left these states.
	Confirm(now time.Time, states [][]byte) error
}

// state says where a request is.
type state uint8

const (
	waiting state = iota // in the queue
	sent                 // in a round trip: it may be stored
	pausing              // its last attempt has failed, and the next one has not begun
	done                 // its outcome is known
	left                 // its caller has left
)

// Reset makes the request as new, but for its memory. It must not be in use: see InUse.
func (r *Request) Reset() {
	clear(r.Keys)
	clear(r.Uses)
	clear(r.states)
	clear(r.changes)
	*r = Request{Keys: r.Keys[:0], Uses: r.Uses[:0], Evaluator: r.Evaluator}
}

// InUse reports whether the engine may still use the request, although Decide has
// returned: its caller has left during a round trip.
func (r *Request) InUse() bool { return r.state == left }

// givesBack reports whether a use of the request gives units back. Such a request must not be
// repeated if its first reply was lost.
func (r *Request) givesBack() bool {
	return slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op == storage.Refund || u.Op == storage.Reset })
}

// writes reports whether the request can change anything.
func (r *Request) writes() bool {
	return slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op != storage.Peek })
}

// changesAny reports whether the request was evaluated and changes something.
func (r *Request) changesAny() bool {
	return slices.ContainsFunc(r.changes, func(c storage.Change) bool { return c.Verb != storage.Keep })
}

// allows reports whether the request takes units if they are there, and does nothing else.
func (r *Request) allows() bool {
	return !slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op != storage.Allow })
}

// room makes room for the states and changes of the keys.
func (r *Request) room() {
	n := len(r.Keys)
	if n <= len(r.fewStates) {
		r.states, r.changes = r.fewStates[:n], r.fewChange[:n]
		return
	}
	r.states, r.changes = make([][]byte, n), make([]storage.Change, n)
}

// evaluate calls the evaluator on r.states, and keeps its error or panic.
func (r *Request) evaluate(now time.Time) (applied int, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked, err = p, errPanicked
		}
	}()
	r.attempts.Add(1)
	clear(r.changes)
	if applied, err = r.Evaluator.Evaluate(now, r.states, r.changes); err != nil {
		return 0, err
	}
	return applied, storage.CheckChanges(r.Keys, r.changes)
}

// confirm calls the evaluator as evaluate does.
func (r *Request) confirm(now time.Time) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked, r.err = p, errPanicked
		}
	}()
	r.err = r.Evaluator.Confirm(now, r.states)
}

// errPanicked is the error of a request whose evaluator has panicked, until the panic is raised
// again.
var errPanicked = errors.New("engine: the evaluator panicked")

// decider is a request as a storage.Decider.
type decider Request

func (d *decider) Decide(found [][]byte, next []storage.Change) error {
	r := (*Request)(d)
	copy(r.states, found)
	if _, err := r.evaluate(r.update.Now); err != nil {
		clear(r.changes)
		return err
	}
	copy(next, r.changes)
	return nil
}
