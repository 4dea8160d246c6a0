package httplimit

import (
	"context"
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

// deny has others pass the flight until the limiter may allow what it denied.
func (f *flight) deny(ctx context.Context, d *compose.Decision) error {
	f.until = time.Now().Add(d.RetryAfter)
	if pause.Outlasts(ctx, d.RetryAfter) {
		return &heldBack{fmt.Sprintf("the rule %q", d.Rule), d.RetryAfter}
	}
	return nil
}
