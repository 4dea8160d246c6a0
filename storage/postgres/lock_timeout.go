package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// maxReserve is the most of the caller's time that is kept for the server's reply after a lock
// timeout.
const maxReserve = 100 * time.Millisecond

// batchLockTimeout is the lock timeout of a batch. Several processes may decide on one key, each for
// some milliseconds. But a longer transaction on one key must not delay the requests for other keys.
// After this timeout the requests are decided one by one.
const batchLockTimeout = 250 * time.Millisecond

// retryLockTimeout is the lock timeout of each of these requests. It is short, because they have
// waited for batchLockTimeout already.
const retryLockTimeout = time.Millisecond

// withinDeadline calls send, for a statement that is a transaction of its own, with a lock timeout
// that ends shortly before ctx does, or after lockTimeout, if that is not 0 and shorter. If lockTimeout is 0 and the
// lock timed out, withinDeadline returns when ctx ends, because the time left is too short for a retry.
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

// clampLockTimeout returns the shorter of the time left and lockTimeout, within what the server
// accepts: at least a millisecond.
func clampLockTimeout(left, lockTimeout time.Duration) time.Duration {
	if lockTimeout > 0 {
		left = min(left, lockTimeout)
	}
	return min(max(left, time.Millisecond), math.MaxInt32*time.Millisecond)
}
