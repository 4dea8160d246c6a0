// Package pause sleeps for as long as a denial says, within a context.
package pause

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// For sleeps for d. It fails with the error of ctx if that ends before, and at once with
// [context.DeadlineExceeded] if that would by its deadline, or d is algo.Never.
func For(ctx context.Context, d time.Duration) error {
	if Outlasts(ctx, d) {
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

// Outlasts reports whether ctx is sure to end before d is over, as it is for algo.Never.
func Outlasts(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return d == algo.Never || ok && time.Until(deadline) < d
}

// Text is d as it stands after "for" in an error: "ever" for algo.Never.
func Text(d time.Duration) string {
	if d == algo.Never {
		return "ever"
	}
	return d.String()
}
