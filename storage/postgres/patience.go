package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// longestReserve is how much of the caller's time is kept, at most, for the
// server to say that a lock was not had.
const longestReserve = 100 * time.Millisecond

// runPatience is for how long requests that share a batch wait for a lock. Several processes may
// decide on one key, each for some milliseconds. But a transaction of somebody's that takes
// longer must not hold up the other requests, which then are decided apart.
const runPatience = 250 * time.Millisecond

// hastyPatience is for how long each of these waits then: it has waited long enough for
// what was in the way of another.
const hastyPatience = time.Millisecond

// withinDeadline lets send a statement that is a transaction of its own, and gives up waiting
// for a lock shortly before ctx ends, or after patience, if that is not 0. Without patience, if ctx is about to end, it
// waits for that end, because what is left is too little to try again and be sure of an answer.
func (s *Store) withinDeadline(ctx context.Context, patience time.Duration, send func(patience time.Duration) error) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return send(patience)
	}
	left := time.Until(deadline)
	reserve := min(left/4, longestReserve)
	err := send(lockLimit(left-reserve, patience))
	if patience == 0 && errors.Is(err, storage.ErrContended) && time.Until(deadline) <= reserve {
		<-ctx.Done()
	}
	return err
}

// lockLimit is the shorter of the time left and patience, as the server takes it: at least a
// millisecond.
func lockLimit(left, patience time.Duration) time.Duration {
	if patience > 0 {
		left = min(left, patience)
	}
	return min(max(left, time.Millisecond), math.MaxInt32*time.Millisecond)
}
