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

// alone sends the statement as a transaction of its own, which gives up waiting
// for a lock shortly before ctx ends. What is left of the time then is too
// little to try again and be sure of an answer, so it is waited for.
func (s *Store) alone(ctx context.Context, db DB, w *write) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.exec(ctx, db, w, 0)
	}
	left := time.Until(deadline)
	reserve := min(left/4, longestReserve)
	err := s.exec(ctx, db, w, lockTimeout(left-reserve))
	if errors.Is(err, storage.ErrContended) && time.Until(deadline) <= reserve {
		<-ctx.Done()
	}
	return err
}

// lockTimeout is what the server takes: at least a millisecond.
func lockTimeout(d time.Duration) time.Duration {
	return min(max(d, time.Millisecond), math.MaxInt32*time.Millisecond)
}
