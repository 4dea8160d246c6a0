package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause of full jitter: anything from nothing to a bound that
// doubles with every failure. Writers that collided are thus spread over a
// stretch of time that soon is as long as all their swaps take, whatever their
// number.
//
// There is no pause after a first conflict, which mostly says no more than that the
// state was not yet known.
type backoff struct{ failures int }

const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

// next is the pause after one more failure: an error, or nil for a conflict.
func (b *backoff) next(failure error) time.Duration {
	if b.failures++; b.failures == 1 && failure == nil {
		return 0
	}
	bound := longestPause
	if b.failures < 10 {
		bound = firstPause << (b.failures - 1)
	}
	return rand.N(bound)
}

// wait pauses, or returns the context's error if it ends first.
func (b *backoff) wait(ctx context.Context, failure error) error {
	pause := b.next(failure)
	if pause == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
