package engine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Request is one decision on the states of some keys, for one call of [Engine.Decide]. A round trip can still use it after
// Decide has returned, so its memory must not be used again.
type Request struct {
	Items     []driver.Item // their keys are different from each other
	Uses      []driver.Use  // of the items with the same indexes; Key has no meaning; without a Program, the request is decided in Go
	Evaluator Evaluator
	Times     int32           // how many equal requests the evaluator decides as one, as many as are allowed; 0 means 1, and below 0 more than a server decides
	FailFast  bool            // do not retry until the deadline if no connection can be made
	Expired   *denials.Denial // the expired denial that Engine.Deny returned, or nil
	Began     time.Time       // when the call began, from which its timeout counts; zero means now

	keys     []string // the text of the keys of Items
	slot     string   // of driver.Server.Place
	began    time.Time
	deadline time.Time
	attempts atomic.Int32 // is also read after the call was abandoned

	// These fields belong to the goroutine of the caller.
	waited   time.Duration // for other calls
	failures int32
	admitted bool  // MaxQueue does not refuse it any more
	lost     bool  // the reply of a round trip was lost: the request may have been stored
	lastErr  error // why the last attempt failed, or an earlier one if the last attempt only ran out of time

	// These fields are guarded by the lock of the queue.
	done    chan struct{} // is closed when the attempt has ended; nil if the caller sends its own request
	element *list.Element // in queue.waiting
	until   time.Time     // the deadline of its round trip; zero while it waits for one

	err error // of the attempt; belongs to the goroutine that sends the request until done is closed
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
	// requests that give units back can shorten that time. If retryAfter is 0, the denial is not cached.
	Denied() (retryAfter time.Duration, denied bool)
}

// givesBack reports whether a use of the request gives units back. Such a request must not be
// repeated if the reply to its first attempt was lost.
func (r *Request) givesBack() bool {
	return slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op == driver.Refund || u.Op == driver.Reset })
}

// writes reports whether the request can change anything.
func (r *Request) writes() bool {
	return slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Peek })
}

// allows reports whether the request takes units if they are there, and does nothing else.
func (r *Request) allows() bool {
	return !slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Allow })
}

// final marks an error of an attempt after which there is no other one.
type final struct{ error }

// finish ends the attempt of a request, and all further ones.
func (r *Request) finish(err error) {
	if r.err = err; err != nil && err != ErrDeclined {
		r.err = final{err}
	}
}

// failFastAfter is how long a FailFast request is retried: a server that restarts refuses connections
// for a moment.
const failFastAfter = 50 * time.Millisecond

// conclude returns the error of a request whose attempt ended with err. If retry is true, another attempt can help. An allow or
// a charge whose reply was lost is decided again once, and may then be charged twice.
func (r *Request) conclude(err error) (retry bool, _ error) {
	if f, ok := err.(final); ok {
		return false, r.outcome(f.error)
	} else if err == nil || err == ErrDeclined {
		return false, err
	}
	lostBefore, lost := r.lost, !errors.Is(err, storage.ErrNotApplied)
	r.lost = lostBefore || lost
	ends := !isTemporary(err) && (!lost || errors.Is(err, storage.ErrPartialWrite)) || lost && (lostBefore || r.givesBack())
	givesUp := r.FailFast && isUnreachable(err) && time.Since(r.began) >= failFastAfter
	if ends || givesUp {
		return false, r.outcome(err)
	}
	if r.failures++; r.lastErr == nil || !breaker.IsTimeout(err) {
		r.lastErr = err
	}
	return true, nil
}

// outcome returns the error of a request that failed with err. If a reply was lost, the outcome is
// unknown.
func (r *Request) outcome(err error) error {
	if !isPanic(err) && r.lost && r.writes() && !errors.Is(err, storage.ErrOutcomeUnknown) {
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

// within returns ctx until the deadline of the request. A request that waits for a batch needs none, because to make a context can
// take longer than all else that the engine does for it.
func (r *Request) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.endsWith(ctx) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, r.deadline, errNoAnswer)
}

// endsWith reports whether ctx ends by the deadline of the request.
func (r *Request) endsWith(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !r.deadline.Before(end)
}

// timeout returns the error of a request if ctx or its deadline ended before there was an outcome. lost means that it may have been
// stored.
func (r *Request) timeout(ctx context.Context, lost bool) error {
	ended := ctx.Err()
	if ended == nil || context.Cause(ctx) == errNoAnswer {
		ended = errNoAnswer
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

// evaluate calls the evaluator on Found of the items. A panic of the evaluator becomes an error. With an error there are no
// changes.
func (r *Request) evaluate(now time.Time, replays bool) (applied int, err error) {
	r.attempts.Add(1)
	r.clearNext()
	err = exited // unless the evaluator returns
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p}
		}
		if err == exited { // this goroutine ends when it has run its deferred functions
			r.finish(err)
		}
		if err != nil {
			r.clearNext()
		}
	}()
	return r.Evaluator.Evaluate(now, r.Items, replays)
}

func (r *Request) clearNext() {
	for i := range r.Items {
		r.Items[i].Next = driver.Change{}
	}
}

// panicked is the error of a request whose evaluator or store has panicked. Decide raises the panic again.
type panicked struct{ value any }

func (p *panicked) Error() string {
	return fmt.Sprint("engine: a policy or the store has panicked: ", p.value)
}

func isPanic(err error) bool {
	_, ok := err.(*panicked)
	return ok
}

// exited is the error of a request whose evaluator has called runtime.Goexit, as a test does that fails in a policy.
var (
	exited error = &panicked{goexit}
	goexit       = errors.New("engine: an evaluator called runtime.Goexit")
)
