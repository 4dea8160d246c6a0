package compose

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice/internal/pause"
)

// Wait waits until one call is allowed: it is WaitN for 1.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	return l.WaitN(ctx, in, 1)
}

// WaitN asks for n calls again and again until they are allowed, sleeping for RetryAfter
// each time. n is at least 1. It fails at once, without having paid, if the wait would outlive the
// context's deadline or no wait helps; the error is then
// [context.DeadlineExceeded], and the decision the denial. It sleeps by the
// machine's clock, whatever Options.Clock tells.
func (l *Limiter[T]) WaitN(ctx context.Context, in T, n int64) (Decision, error) {
	for {
		d, err := l.AllowN(ctx, in, n)
		if err != nil || d.Allowed {
			return d, err
		}
		if err := pause.For(ctx, d.RetryAfter); err != nil {
			return d, fmt.Errorf("compose: rule %q denies for %s: %w", d.Rule, pause.Text(d.RetryAfter), err)
		}
	}
}
