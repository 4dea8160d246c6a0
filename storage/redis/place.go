package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Place implements [driver.Placer]. In a Redis Cluster requests share a batch if their keys are in one
// hash slot. Where the client does not know the servers, and after a server has refused
// keys that lie apart or are not all allowed, only requests of the same keys share one.
func (s *Store) Place(keys ...string) (shard, where string, err error) {
	if err := s.checkKeys(keys); err != nil || len(keys) == 0 {
		return "", "", err
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		key := s.key(keys[0])
		shard, where = masterOf(c, key), strconv.Itoa(slot(key))
	case *redis.Ring:
		where = hashed(s.key(keys[0]))
	}
	if s.isSeparate() {
		where += same(keys)
	}
	return shard, where, nil
}

// separateFor is how long requests of different keys do not share a script after a server has
// refused one. The rights of the user, or the place of a slot, may have changed since.
const separateFor = time.Minute

func (s *Store) separate() {
	until := time.Now().Add(separateFor)
	s.separateUntil.Store(&until)
}

func (s *Store) isSeparate() bool {
	until := s.separateUntil.Load()
	return s.alwaysApart || until != nil && time.Now().Before(*until)
}

// same is equal for equal lists of keys.
func same(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "%d:%s", len(key), key)
	}
	return b.String()
}

// ended is a context that keeps the client from asking the servers.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// masterOf returns the address of the server that has key, if the client knows it.
func masterOf(c *redis.ClusterClient, key string) string {
	master, err := c.MasterForKey(ended, key)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// checkKeys reports keys that do not lie in one place.
func (s *Store) checkKeys(keys []string) error {
	if len(keys) < 2 {
		return nil
	}
	for _, key := range keys[1:] {
		if err := s.checkTogether(keys[0], key); err != nil {
			return err
		}
	}
	return nil
}
