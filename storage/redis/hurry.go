package redis

import (
	"context"
	"math/bits"
	"time"

	"github.com/redis/go-redis/v9"
)

// hurried is the client with shorter timeouts than its own.
type hurried struct {
	client  *redis.Client
	timeout time.Duration
	made    time.Time
}

// hurriedFor is for how long one is used again, since to make one takes longer than
// to use it. A hook that is added to the caller's client is heeded after that at the
// latest.
const hurriedFor = 100 * time.Millisecond

// inTime is the plain client, with shorter timeouts if its own go beyond the deadline.
func (s *Store) inTime(ctx context.Context) redis.UniversalClient {
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
	return s.hurried(coarse(left), now)
}

func (s *Store) hurried(timeout time.Duration, now time.Time) *redis.Client {
	if h := s.hurry.Load(); h != nil && h.timeout == timeout && now.Sub(h.made) < hurriedFor {
		return h.client
	}
	h := &hurried{s.plain.WithTimeout(timeout), timeout, now}
	s.hurry.Store(h)
	return h.client
}

// coarse is d, or less by a 64th at most: so that those who have about as much time
// have the same timeout.
func coarse(d time.Duration) time.Duration {
	const kept = 7 // bits
	dropped := max(0, bits.Len64(uint64(d))-kept)
	return d >> dropped << dropped
}
