package httplimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// WaitError is the error of a request that [Transport] did not send. Its context ended, or
// was certain to end, before the limits allowed the request. A WaitError wraps the context's
// error and cause. If the context has not ended, it wraps [context.DeadlineExceeded].
type WaitError struct {
	// By is what delayed the request: "the server", or the Limiter's rule as in
	// `the rule "own"`. It is empty if the context ended before there was a delay.
	By string
	// Wait is the remaining wait if the context has not ended. It is [algo.Never] if the
	// Limiter will never allow the request. It is 0 if the context has ended.
	Wait time.Duration

	err, cause error // of the context
}

const theServer = "the server"

// delayedByRule is the By of a request that the Limiter denied, else empty.
func (p *pendingRequest) delayedByRule() string {
	if p.denial == (denial{}) {
		return ""
	}
	return fmt.Sprintf("the rule %q", p.denial.rule)
}

func outlastsContext(by string, wait time.Duration) *WaitError {
	return &WaitError{By: by, Wait: wait, err: context.DeadlineExceeded, cause: context.DeadlineExceeded}
}

func contextEnded(ctx context.Context, by string) *WaitError {
	return &WaitError{By: by, err: ctx.Err(), cause: context.Cause(ctx)}
}

// Error implements error.
func (e *WaitError) Error() string {
	reason := ""
	switch {
	case e.Wait == algo.Never:
		reason = e.By + " will never allow it: "
	case e.Wait > 0:
		reason = fmt.Sprintf("%s requires a wait of %s, which is longer than the context lasts: ", e.By, e.Wait)
	case e.By != "":
		reason = fmt.Sprintf("the context ended while it waited for %s: ", e.By)
	}
	return fmt.Sprintf("httplimit: request not sent: %s%v", reason, e.cause)
}

// Unwrap returns the context's error and cause.
func (e *WaitError) Unwrap() []error { return []error{e.err, e.cause} }

// Timeout reports whether the context's deadline is the reason. The method Timeout of
// url.Error calls it.
func (e *WaitError) Timeout() bool { return errors.Is(e.err, context.DeadlineExceeded) }
