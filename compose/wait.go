package compose

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Wait asks again and again until in is allowed, sleeping for RetryAfter each
// time. It fails at once, without having paid, if the wait would outlive the
// context's deadline or no wait helps; the error is then
// [context.DeadlineExceeded], and the decision the denial. It sleeps by the
// machine's clock, whatever Options.Clock tells.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	for {
		d, err := l.Allow(ctx, in)
		if err != nil || d.Allowed {
			return d, err
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return d, fmt.Errorf("compose: rule %q denies for %s: %w", d.Rule, howLong(d.RetryAfter), err)
		}
	}
}

func howLong(d time.Duration) string {
	if d == algo.Never {
		return "ever"
	}
	return d.String()
}

// sleep fails at once if ctx would end before d is over.
func sleep(ctx context.Context, d time.Duration) error {
	deadline, ok := ctx.Deadline()
	if d == algo.Never || ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
