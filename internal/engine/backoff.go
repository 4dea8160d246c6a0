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

// wait pauses, but not beyond until. It returns the context's error if that ends first.
func (b *backoff) wait(ctx context.Context, until time.Time) error {
	pause := min(b.pause(), time.Until(until))
	if pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
