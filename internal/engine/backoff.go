package engine

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff counts failed attempts. Its pauses have full jitter: they are drawn between 0 and a
// bound that doubles with each failure.
type backoff struct{ failures int }

const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

func (b *backoff) pause() time.Duration {
	b.failures++
	return rand.N(min(firstPause<<min(b.failures-1, 20), longestPause))
}

// wait pauses, or returns the context's error if it ends first.
func (b *backoff) wait(ctx context.Context) error {
	timer := time.NewTimer(b.pause())
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
