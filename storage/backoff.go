package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to wait before trying again.
//
// Pauses are of full jitter: anything from nothing to a bound that doubles, so that
// writers that collided are spread over a stretch of time that soon is as long as
// all of them take, whatever their number. There is none after a first conflict,
// which mostly says no more than that the state was not yet known.
//
// A writer that pauses after a conflict leaves the key to those that do not, and by
// the end of the pause knows an older state than they do. So one that has lost for
// long pauses no more, except now and then for the sake of the database.
type backoff struct {
	conflicts, errors int
	since             time.Time // the first conflict
}

const (
	firstPause   = 100 * time.Microsecond
	longestPause = 50 * time.Millisecond
	longestYield = 5 * time.Millisecond  // after conflicts
	lostForLong  = 20 * time.Millisecond // from the first conflict on
	inARow       = 8                     // conflicts to each pause of one that has lost for long
)

// next is the pause after one more failure: an error, or nil for a conflict.
func (b *backoff) next(failure error) time.Duration {
	if failure != nil {
		b.errors++
		return upTo(b.errors, longestPause)
	}
	b.conflicts++
	switch {
	case b.conflicts == 1:
		b.since = time.Now()
		return 0
	case b.conflicts%inARow != 0 && time.Since(b.since) > lostForLong:
		return 0
	}
	return upTo(b.conflicts-1, longestYield)
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
