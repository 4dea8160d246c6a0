package httplimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/retrywait"
)

// heldBack is the error of a request whose context would end before it may be sent.
type heldBack struct {
	by   string
	wait time.Duration
}

func (h *heldBack) Error() string {
	return fmt.Sprintf("httplimit: held back by %s for %s: %v", h.by, retrywait.Text(h.wait), h.Unwrap())
}

func (h *heldBack) Unwrap() error { return context.DeadlineExceeded }

// Timeout is where url.Error looks, which unwraps nothing.
func (h *heldBack) Timeout() bool { return true }

// notSent is the error of a request whose context ended before it was sent.
type notSent struct {
	by           string // who held it back, if anyone did
	ended, cause error
}

func newNotSent(ctx context.Context, by string) *notSent {
	return &notSent{by, ctx.Err(), context.Cause(ctx)}
}

func (n *notSent) Error() string {
	if n.by == "" {
		return fmt.Sprintf("httplimit: not sent: %v", n.cause)
	}
	return fmt.Sprintf("httplimit: not sent, held back by %s: %v", n.by, n.cause)
}

func (n *notSent) Unwrap() []error { return []error{n.ended, n.cause} }

func (n *notSent) Timeout() bool { return errors.Is(n.ended, context.DeadlineExceeded) }

// denied is what a limiter denies alike, whoever asks: so much, under a key of a rule. The
// zero value is nothing.
type denied struct {
	rule, key string
	cost      int64
}

// by is who held a request back that was denied.
func (d denied) by() string {
	if d == (denied{}) {
		return ""
	}
	return fmt.Sprintf("the rule %q", d.rule)
}

// deny has others pass the flight until the limiter may allow what it denied.
func (f *flight) deny(ctx context.Context, d *compose.Decision) error {
	f.until = time.Now().Add(d.RetryAfter)
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule {
			f.denied = denied{r.Rule, r.Key, r.Cost}
		}
	}
	if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
		return &heldBack{f.denied.by(), d.RetryAfter}
	}
	f.gate.postpone(f)
	return nil
}
