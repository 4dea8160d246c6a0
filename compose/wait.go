package compose

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice/internal/pause"
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
		if err := pause.For(ctx, d.RetryAfter); err != nil {
			return d, fmt.Errorf("compose: rule %q denies for %s: %w", d.Rule, pause.Text(d.RetryAfter), err)
		}
	}
}
