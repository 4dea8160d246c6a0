package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause of full jitter: anything from nothing to a bound that
// doubles with every pause. Writers that collided are thus spread over a
// stretch of time that soon is as long as all their swaps take, whatever their
// number.
type backoff struct {
	pauses  int
	skipped bool
}

const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

// skip makes the next pause none.
func (b *backoff) skip() { b.skipped = true }

// wait pauses, or returns the context's error if it ends first.
func (b *backoff) wait(ctx context.Context) error {
	if b.skipped {
		b.skipped = false
		return ctx.Err()
	}
	bound := longestPause
	if b.pauses < 9 {
		bound = firstPause << b.pauses
	}
	b.pauses++
	timer := time.NewTimer(rand.N(bound))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
