package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
)

// call is one call of Decide until it has its outcome. Only the goroutine of the caller uses it.
type call struct {
	*Request
	slot     string // of driver.Server.Place
	began    time.Time
	deadline time.Time
	waited   time.Duration // for other calls
	failures int32
	admitted bool  // MaxQueue and the circuit breaker do not refuse it any more
	lost     bool  // the reply of a round trip was lost: the request may have been stored
	lastErr  error // why the last attempt failed, or an earlier one if the last attempt only ran out of time
}

// final marks an error after which there is no further attempt.
type final struct{ error }

// failFastAfter is how long a FailFast call is retried: a server that restarts refuses connections
// for a moment.
const failFastAfter = 50 * time.Millisecond

// conclude returns the error of a call whose attempt ended with err. If retry is true, another attempt can help. An allow or
// a charge whose reply was lost is decided again once, and may then be charged twice.
func (c *call) conclude(err error) (retry bool, _ error) {
	if f, ok := err.(final); ok {
		return false, c.outcome(f.error)
	} else if err == nil || err == ErrDeclined {
		return false, err
	}
	lostBefore, lost := c.lost, !errors.Is(err, storage.ErrNotApplied)
	c.lost = lostBefore || lost
	ends := errors.Is(err, storage.ErrPartialWrite) || !isTemporary(err) && !lost || lost && (lostBefore || c.givesBack())
	givesUp := c.FailFast && isUnreachable(err) && time.Since(c.began) >= failFastAfter
	if ends || givesUp {
		return false, c.outcome(err)
	}
	if c.failures++; c.lastErr == nil || !breaker.IsTimeout(err) {
		c.lastErr = err
	}
	return true, nil
}

// outcome returns the error of a call that failed with err. If a reply was lost, the outcome is unknown.
func (c *call) outcome(err error) error {
	if !isPanic(err) && c.lost && !errors.Is(err, storage.ErrOutcomeUnknown) {
		return unknown(err)
	}
	return err
}

// isTemporary reports whether another attempt can succeed after an error.
func isTemporary(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrContended) || errors.Is(err, context.DeadlineExceeded)
}

// errNoAnswer is the cause of a context that ends because Options.Timeout is over.
var errNoAnswer = fmt.Errorf("%w: no answer within the timeout: %w", storage.ErrUnavailable, context.DeadlineExceeded)

// timeout returns the error of a call whose ctx ended before there was an outcome. lost means that it may have been stored.
func (c *call) timeout(ctx context.Context, lost bool) error {
	ended := ctx.Err()
	if context.Cause(ctx) == errNoAnswer {
		ended = errNoAnswer
	}
	cause := ended
	if last := c.lastErr; last != nil {
		if ended == errNoAnswer && (errors.Is(last, storage.ErrContended) || errors.Is(last, storage.ErrUnavailable)) {
			ended = context.DeadlineExceeded
		}
		if cause = last; !errors.Is(cause, ended) {
			cause = fmt.Errorf("%w: %w", cause, ended)
		}
	}
	if lost {
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
