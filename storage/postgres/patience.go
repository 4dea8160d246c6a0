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

// sharedPatience is for how long groups that share a statement wait for a lock. It is
// more than those need who only decide; a transaction of somebody's that takes longer
// must not hold up the other groups, which then are tried one by one.
const sharedPatience = 100 * time.Millisecond

// hastyPatience is for how long each of these waits then: it has waited long enough for
// what was in the way of another.
const hastyPatience = time.Millisecond

// alone sends the statement as a transaction of its own, which gives up waiting
// for a lock shortly before ctx ends. Then it waits for that end, because what is left
// is too little to try again and be sure of an answer.
func (s *Store) alone(ctx context.Context, db DB, w *write) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.exec(ctx, db, w, w.patience)
	}
	left := time.Until(deadline)
	reserve := min(left/4, longestReserve)
	err := s.exec(ctx, db, w, w.limit(left-reserve))
	if errors.Is(err, storage.ErrContended) && time.Until(deadline) <= reserve {
		<-ctx.Done()
	}
	return err
}

// limit is the shorter of d and the patience of the write, as the server takes
// it: at least a millisecond.
func (w *write) limit(d time.Duration) time.Duration {
	if w.patience > 0 {
		d = min(d, w.patience)
	}
	return min(max(d, time.Millisecond), math.MaxInt32*time.Millisecond)
}
