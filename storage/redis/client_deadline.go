package redis

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// deadlineClient is a copy of the caller's client with ContextTimeoutEnabled. It ends a call in time
// without a goroutine, which would double the time of a call.
type deadlineClient struct {
	client *redis.Client
	made   time.Time
}

// deadlineClientReuse is how long a deadlineClient is reused, because a copy takes longer than a
// call. A hook that is added to the caller's client takes effect after this time at the latest.
const deadlineClientReuse = 100 * time.Millisecond

// withDeadlines returns a copy of the caller's client that ends calls at the deadlines of contexts.
// It reuses a recent copy.
func (s *Store) withDeadlines(now time.Time) *redis.Client {
	c := s.deadlineClient.Load()
	if c == nil || now.Sub(c.made) >= deadlineClientReuse {
		own := s.single.Options()
		client := s.single.WithTimeout(max(own.ReadTimeout, 0))
		o := client.Options() // the copy has its own Options, and no other goroutine has the copy yet
		o.WriteTimeout, o.ContextTimeoutEnabled = max(own.WriteTimeout, 0), true
		c = &deadlineClient{client, now}
		s.deadlineClient.Store(c)
	}
	return c.client
}
