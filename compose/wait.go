package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// ErrExceedsCapacity is the error of Wait and WaitN if the cost is above the capacity of a
// rule. Such a call is never allowed.
var ErrExceedsCapacity = errors.New("compose: the cost exceeds the capacity")

// Wait is WaitN for one call.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	return l.WaitN(ctx, in, 1)
}

// WaitN waits until n calls are allowed: it calls AllowN, and after each denial it sleeps for
// RetryAfter and tries again. n is at least 1. The sleep uses the clock of the machine, even
// if Options.Clock is set.
//
// WaitN returns early, without having paid, in these cases:
//
//   - RetryAfter ends after the deadline of ctx. The error is [context.DeadlineExceeded], at
//     once, and the decision is the denial.
//   - No wait helps. The error is both [ErrExceedsCapacity] and context.DeadlineExceeded.
//   - ctx is cancelled. The error is that of ctx.
//
// WaitN also returns early if AllowN returns an error, such as [storage.ErrUnavailable].
// That error can be a context.DeadlineExceeded too, because Options.Timeout was over.
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
