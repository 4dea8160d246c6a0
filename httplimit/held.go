package httplimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/pause"
)

// heldBack is the error of a request whose context would end before it may be sent.
type heldBack struct {
	by   string
	wait time.Duration
}

func (h *heldBack) Error() string {
	return fmt.Sprintf("httplimit: held back by %s for %s: %v", h.by, pause.Text(h.wait), h.Unwrap())
}

func (h *heldBack) Unwrap() error { return context.DeadlineExceeded }

// Timeout is where url.Error looks, which unwraps nothing.
func (h *heldBack) Timeout() bool { return true }

// sleep waits until the limiter may allow what it denied.
func sleep(ctx context.Context, d *compose.Decision) error {
	err := pause.For(ctx, d.RetryAfter)
	if errors.Is(err, context.DeadlineExceeded) {
		return &heldBack{fmt.Sprintf("the rule %q", d.Rule), d.RetryAfter}
	}
	return err
}
