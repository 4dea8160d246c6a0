package engine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Request is one decision on the states of some keys, for one call of [Engine.Decide]. A round trip can still use it after
// Decide has returned, so its memory must not be used again.
type Request struct {
	Items     []driver.Item // their keys are different from each other
	Uses      []Use         // one for each item
	Evaluator Evaluator
	FailFast  bool // do not retry until the deadline if no connection can be made

	keys        []string // the text of the keys of Items
	slot        string   // of driver.Server.Place
	began       time.Time
	deadline    time.Time
	fromTimeout bool         // the deadline follows from Options.Timeout, not from the caller's context
	attempts    atomic.Int32 // is also read after the call was abandoned

	// These fields are guarded by the lock of the queue.
	state   state
	done    chan struct{} // receives once, when state is done; nil if the caller sends its own request
	element *list.Element // in queue.waiting
	until   time.Time     // the deadline of the round trip
	lost    bool          // the reply of a round trip was lost: the request may have been stored
	lastErr error         // why the last attempt failed, or an earlier one if the last attempt only ran out of time

	// These fields belong to the goroutine that sends the request.
	settled  bool // by the last attempt
	err      error
	panicked any
	failures int
}

// Use is the operation of a request on one key.
type Use struct {
	Op      driver.Op
	Program *algo.Program // the step on the server; nil if there is none
	Cost    int64
	Shadow  bool
}

// Evaluator decides a request on states. Only one goroutine at a time calls it, which need not be the caller's. Its panics
// reach the caller of Decide.
type Evaluator interface {
	// Evaluate decides at now, like Decide of a driver.Update. It may be called again with other records and another
	// time. Only the last call counts. applied is how many steps were applied; see driver.Request. After an error nothing
	// is stored, and Decide returns the error unchanged.
	//
	// If replays is true, a server has decided, and applied is compared with what it applied. If Evaluate also returns
	// ErrDeclined, the request is decided in Go.
	Evaluate(now time.Time, items []driver.Item, replays bool) (applied int, err error)

	// Denied reports whether the last Evaluate denied, and how long the same states would deny the same request. Only
	// requests that give units back can shorten that time.
	Denied() (retryAfter time.Duration, denied bool)
}

// state is the progress of a request.
type state uint8

const (
	waiting   state = iota // for a round trip
	sent                   // in a round trip that may store it
	pausing                // after a failure
	expired                // its deadline was over when a sender took it; its caller is about to return
	done                   // its outcome is known
	abandoned              // the call has returned, because its context ended or its timeout passed
)

// givesBack reports whether a use of the request gives units back. Such a request must not be
// repeated if the reply to its first attempt was lost.
func (r *Request) givesBack() bool {
	return slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op == driver.Refund || u.Op == driver.Reset })
}

// writes reports whether the request can change anything.
func (r *Request) writes() bool {
	return slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op != driver.Peek })
}

// allows reports whether the request takes units if they are there, and does nothing else.
func (r *Request) allows() bool {
	return !slices.ContainsFunc(r.Uses, func(u Use) bool { return u.Op != driver.Allow })
}

// finish settles the request.
func (r *Request) finish(err error) { r.settled, r.err = true, err }

// failFastAfter is how long a FailFast request is retried: a server that restarts refuses connections
// for a moment.
const failFastAfter = 50 * time.Millisecond

// fail records that an attempt has failed with r.err. It settles the request if no other attempt can help. An allow or a
// charge whose reply was lost is decided again once, and may then be charged twice.
func (r *Request) fail() {
	err, lost := r.err, !errors.Is(r.err, storage.ErrNotApplied)
	final := !isTemporary(err) && (!lost || errors.Is(err, storage.ErrPartialWrite)) || lost && (r.lost || r.givesBack())
	givesUp := r.FailFast && isUnreachable(err) && time.Since(r.began) >= failFastAfter
	if final || givesUp {
		r.finish(r.outcome(err, r.lost || lost))
		return
	}
	if r.failures++; r.lastErr == nil || !breaker.IsTimeout(err) {
		r.lastErr = err
	}
	r.lost = r.lost || lost
}

// outcome returns the error of a request that failed with err. If a reply was lost, the outcome is
// unknown.
func (r *Request) outcome(err error, lost bool) error {
	if lost && r.writes() && !errors.Is(err, storage.ErrOutcomeUnknown) {
		return unknown(err)
	}
	return err
}

// isTemporary reports whether another attempt can succeed after an error.
func isTemporary(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrContended) || errors.Is(err, context.DeadlineExceeded)
}

// errNoAnswer is why a request ends if Options.Timeout is over.
var errNoAnswer = fmt.Errorf("%w: no answer within the timeout: %w", storage.ErrUnavailable, context.DeadlineExceeded)

// timeout returns the error of a request that ended without an outcome. ended is the error of its context, or nil after its
// deadline. lost means that it may have been stored.
func (r *Request) timeout(ended error, lost bool) error {
	switch {
	case ended == context.Canceled:
	case r.fromTimeout:
		ended = errNoAnswer
	default:
		ended = context.DeadlineExceeded
	}
	cause := ended
	if last := r.lastErr; last != nil {
		if ended == errNoAnswer && (errors.Is(last, storage.ErrContended) || errors.Is(last, storage.ErrUnavailable)) {
			ended = context.DeadlineExceeded
		}
		if cause = last; !errors.Is(cause, ended) {
			cause = fmt.Errorf("%w: %w", cause, ended)
		}
	}
	if lost && r.writes() {
		return unknown(cause)
	}
	return storage.NotApplied(cause)
}

// unknown returns the error of a request that may have been stored. It does not wrap ErrNotApplied, even if cause does,
// because an earlier attempt may have been applied.
func unknown(cause error) error {
	switch {
	case !errors.Is(cause, storage.ErrNotApplied):
		return fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, cause)
	case errors.Is(cause, storage.ErrUnavailable):
		return fmt.Errorf("%w: %w (the last attempt: %v)", storage.ErrOutcomeUnknown, storage.ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: the last attempt: %v", storage.ErrOutcomeUnknown, cause)
}

// evaluate calls the evaluator on Found of the items, and keeps its error or panic. With an error there are
// no changes.
func (r *Request) evaluate(now time.Time, replays bool) (applied int, err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			r.panicked, err = p, errPanicked
		} else if !returned {
			r.panicked = goexit // this goroutine ends when it has run its deferred functions
			r.finish(errPanicked)
		}
		if err != nil || !returned {
			r.clearNext()
		}
	}()
	r.attempts.Add(1)
	r.clearNext()
	applied, err = r.Evaluator.Evaluate(now, r.Items, replays)
	returned = true
	return applied, err
}

func (r *Request) clearNext() {
	for i := range r.Items {
		r.Items[i].Next = driver.Change{}
	}
}

// errPanicked is the error of a request whose evaluator has panicked, until the panic is raised
// again.
var errPanicked = errors.New("engine: an evaluator panicked")

// goexit is Request.panicked if the evaluator has called runtime.Goexit, as a test does that fails in a policy.
var goexit = errors.New("engine: an evaluator called runtime.Goexit")
