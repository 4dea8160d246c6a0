package redis

import (
	"context"
	"math/bits"
	"time"

	"github.com/redis/go-redis/v9"
)

// timeoutClient is a copy of the caller's client with a shorter timeout.
type timeoutClient struct {
	client  *redis.Client
	timeout time.Duration
	made    time.Time
}

// timeoutClientReuse is for how long a timeoutClient is reused, because making one takes longer
// than using it. A hook that is added to the caller's client takes effect after that at the latest.
const timeoutClientReuse = 100 * time.Millisecond

// withinDeadline returns the plain client, or a copy with a shorter timeout if its own timeouts end
// after the deadline of ctx. It returns nil if the deadline has passed.
func (s *Store) withinDeadline(ctx context.Context) redis.UniversalClient {
	o := s.plain.Options()
	if o.ContextTimeoutEnabled {
		return s.plain
	}
	deadline, _ := ctx.Deadline()
	now := time.Now()
	left := deadline.Sub(now)
	if left <= 0 {
		return nil
	}
	if limited := min(o.ReadTimeout, o.WriteTimeout) > 0; limited && max(o.ReadTimeout, o.WriteTimeout) <= left {
		return s.plain
	}
	if o.ReadTimeout > 0 {
		left = min(left, o.ReadTimeout)
	}
	return s.withTimeout(roundTimeout(left), now)
}

// withTimeout returns a copy of the plain client with this timeout: the cached one if it is recent.
func (s *Store) withTimeout(timeout time.Duration, now time.Time) *redis.Client {
	if c := s.timeoutClient.Load(); c != nil && c.timeout == timeout && now.Sub(c.made) < timeoutClientReuse {
		return c.client
	}
	c := &timeoutClient{s.plain.WithTimeout(timeout), timeout, now}
	s.timeoutClient.Store(c)
	return c.client
}

// roundTimeout rounds d down, by a 64th at most, so that calls with similar deadlines share a
// timeout.
func roundTimeout(d time.Duration) time.Duration {
	const kept = 7 // bits
	dropped := max(0, bits.Len64(uint64(d))-kept)
	return d >> dropped << dropped
}
