package engine

import (
	"container/list"
	"errors"
	"time"
)

// attempt is one attempt to decide a request in a batch. The goroutine that sends the batch uses it until done is closed, even
// if the caller has returned.
type attempt struct {
	*Request
	slot     string        // of driver.Server.Place
	deadline time.Time     // of the call
	done     chan struct{} // is closed when the attempt has ended; nil if the caller sends the request itself
	err      error

	// The lock of the queue guards these fields.
	element *list.Element // in queue.waiting
	until   time.Time     // the deadline of the batch; zero while the attempt waits for one
}

// finish sets the error of the attempt. After an error other than ErrDeclined there is no further attempt.
func (a *attempt) finish(err error) {
	if a.err = err; err != nil && err != ErrDeclined {
		a.err = final{err}
	}
}

// errExited is the error of a request whose evaluator has called runtime.Goexit, as a test does that fails in a policy.
var errExited error = final{errors.New("engine: an evaluator called runtime.Goexit")}

// evaluate evaluates the request, and finishes the attempt with its error.
func (a *attempt) evaluate(now time.Time, replays bool) (applied int, err error) {
	a.err = errExited // if the evaluator does not return
	applied, err = a.Request.evaluate(now, replays)
	a.finish(err)
	return applied, err
}
