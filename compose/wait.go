package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// ErrExceedsCapacity is the error of Wait and WaitN if the cost is above the capacity of a
// rule. Waiting does not help then.
var ErrExceedsCapacity = errors.New("compose: the cost exceeds the capacity")

// Wait waits until one call is allowed: it is WaitN for 1.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	return l.WaitN(ctx, in, 1)
}

// WaitN asks for n calls again and again until they are allowed, sleeping for RetryAfter
// each time. n is at least 1. It fails at once, without having paid, if the wait would
// outlive the context's deadline or no wait helps; the error is then
// [context.DeadlineExceeded], in the latter case [ErrExceedsCapacity] too, and the decision the
// denial. A store that fails ends the wait too, unless a failure policy decides: the
// error is that of AllowN, mostly [storage.ErrUnavailable], even if it is also a
// DeadlineExceeded, because the timeout is over. It sleeps by the machine's clock,
// whatever Options.Clock tells.
func (l *Limiter[T]) WaitN(ctx context.Context, in T, n int64) (Decision, error) {
	for {
		d, err := l.AllowN(ctx, in, n)
		if err != nil || d.Allowed {
			return d, err
		}
		if d.RetryAfter == algo.Never {
			return d, fmt.Errorf("%w of rule %q: %w", ErrExceedsCapacity, d.Rule, context.DeadlineExceeded)
		}
		if err := retrywait.Sleep(ctx, d.RetryAfter); err != nil {
			return d, fmt.Errorf("compose: rule %q denies for %s: %w", d.Rule, d.RetryAfter, err)
		}
	}
}
