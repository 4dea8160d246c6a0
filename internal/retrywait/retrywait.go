// Package retrywait waits before a retry, within a context.
package retrywait

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Sleep sleeps for d, or returns the error of ctx when that ends. If d ends after the deadline of ctx, or is algo.Never, it
// returns [context.DeadlineExceeded] at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if ExceedsDeadline(ctx, d) {
		return context.DeadlineExceeded
	}
	Pause(ctx, d)
	return ctx.Err()
}

// Pause sleeps for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// ExceedsDeadline reports whether a wait of d ends after the deadline of ctx. It is true for algo.Never.
func ExceedsDeadline(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return d == algo.Never || ok && time.Until(deadline) < d
}
