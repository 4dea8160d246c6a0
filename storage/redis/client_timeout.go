package redis

import (
	"context"
	"math/bits"
	"time"

	"github.com/redis/go-redis/v9"
)

// timeoutClient is a copy of the caller's client with a shorter timeout. It ends a call in time
// without a goroutine, which would double the time of a call.
type timeoutClient struct {
	client  *redis.Client
	timeout time.Duration
	made    time.Time
}

// timeoutClientReuse is how long a timeoutClient is reused, because a copy takes longer than a
// call. A hook that is added to the caller's client takes effect after this time at the latest.
const timeoutClientReuse = 100 * time.Millisecond

// withinDeadline returns the caller's client, or a copy with a shorter timeout if the timeouts of
// the client end after the deadline of ctx. It returns nil if the deadline has passed.
func (s *Store) withinDeadline(ctx context.Context) redis.UniversalClient {
	o, now := s.single.Options(), time.Now()
	deadline, _ := ctx.Deadline()
	left := deadline.Sub(now)
	switch {
	case left <= 0:
		return nil
	case min(o.ReadTimeout, o.WriteTimeout) > 0 && max(o.ReadTimeout, o.WriteTimeout) <= left:
		return s.single
	case o.ReadTimeout > 0:
		left = min(left, o.ReadTimeout)
	}
	return s.withTimeout(roundTimeout(left), now)
}

// withTimeout returns a copy of the caller's client with this timeout. It reuses a recent copy.
func (s *Store) withTimeout(timeout time.Duration, now time.Time) *redis.Client {
	c := s.timeoutClient.Load()
	if c == nil || c.timeout != timeout || now.Sub(c.made) >= timeoutClientReuse {
		c = &timeoutClient{s.single.WithTimeout(timeout), timeout, now}
		s.timeoutClient.Store(c)
	}
	return c.client
}

// roundTimeout rounds d down by at most 1/64, so that calls with similar deadlines can share a
// client.
func roundTimeout(d time.Duration) time.Duration {
	const significant = 7 // bits
	dropped := max(0, bits.Len64(uint64(d))-significant)
	return d >> dropped << dropped
}
