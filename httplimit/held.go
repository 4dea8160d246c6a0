package httplimit

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// heldBack is the error of a request whose context would end before it may be sent.
type heldBack struct {
	by   string
	wait time.Duration
}

func (h *heldBack) Error() string {
	wait := h.wait.String()
	if h.wait == algo.Never {
		wait = "ever"
	}
	return fmt.Sprintf("httplimit: held back by %s for %s: %v", h.by, wait, context.DeadlineExceeded)
}

func (h *heldBack) Unwrap() error { return context.DeadlineExceeded }

// Timeout is where url.Error looks, which unwraps nothing.
func (h *heldBack) Timeout() bool { return true }

// sleep waits until the limiter may allow what it denied. It fails at once if the
// context would end before that.
func sleep(ctx context.Context, d *compose.Decision) error {
	deadline, ok := ctx.Deadline()
	if d.RetryAfter == algo.Never || ok && time.Until(deadline) < d.RetryAfter {
		return &heldBack{fmt.Sprintf("the rule %q", d.Rule), d.RetryAfter}
	}
	timer := time.NewTimer(d.RetryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
