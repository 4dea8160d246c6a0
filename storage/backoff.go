package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to wait before trying again.
//
// After a conflict it is not at all: the answer told what is stored, which is worth
// less with every moment, and who waits leaves the key to those who do not. Only
// every few conflicts there is a pause, for the sake of the database where very
// many contend. After an error there is always one. Pauses are of full jitter:
// anything from nothing to a bound that doubles, so that writers that collided are
// spread over a stretch of time that soon is as long as all of them take, whatever
// their number.
type backoff struct{ conflicts, errors int }

const (
	inARow       = 8 // conflicts without a pause
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
	longestYield = 2 * time.Millisecond // after conflicts
)

// next is the pause after one more failure: an error, or nil for a conflict.
func (b *backoff) next(failure error) time.Duration {
	if failure != nil {
		b.errors++
		return upTo(b.errors, longestPause)
	}
	b.conflicts++
	if b.conflicts%inARow != 0 {
		return 0
	}
	return upTo(b.conflicts/inARow, longestYield)
}

// upTo is a random pause, the bound of which doubles with n from 1 on.
func upTo(n int, longest time.Duration) time.Duration {
	return rand.N(min(firstPause<<min(n-1, 20), longest))
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
