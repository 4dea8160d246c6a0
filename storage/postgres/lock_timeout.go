package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// maxReserve is the maximum time between a lock timeout and the deadline. The server's reply needs it.
const maxReserve = 100 * time.Millisecond

// batchLockTimeout is the lock timeout of a batch. Decisions of other processes lock a key for some
// milliseconds. A longer transaction on one key must not delay the requests for other keys. After
// this timeout, the batch is split into parts without common keys.
const batchLockTimeout = 250 * time.Millisecond

// splitLockTimeout is the lock timeout of each part. It is short, because the batch has waited
// already.
const splitLockTimeout = time.Millisecond

// withinDeadline calls send with a lock timeout that ends shortly before the deadline of ctx, or with
// lockTimeout if that is not 0 and shorter. It is for statements outside of a caller's transaction.
// If lockTimeout is 0 and the lock timed out, withinDeadline returns when ctx ends, because the time
// that is left is too short for a retry.
func (s *Store) withinDeadline(ctx context.Context, lockTimeout time.Duration, send func(lockTimeout time.Duration) error) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return send(lockTimeout)
	}
	left := time.Until(deadline)
	reserve := min(left/4, maxReserve)
	err := send(clampLockTimeout(left-reserve, lockTimeout))
	if lockTimeout == 0 && errors.Is(err, storage.ErrContended) && time.Until(deadline) <= reserve {
		<-ctx.Done()
	}
	return err
}

// clampLockTimeout returns the shorter of left and lockTimeout, within the range that the server
// accepts: one millisecond to MaxInt32 milliseconds.
func clampLockTimeout(left, lockTimeout time.Duration) time.Duration {
	if lockTimeout > 0 {
		left = min(left, lockTimeout)
	}
	return min(max(left, time.Millisecond), math.MaxInt32*time.Millisecond)
}
