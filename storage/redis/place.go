package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Place implements [driver.Placer]. In a Redis Cluster, requests may share a batch if their keys are
// in one hash slot. Only requests with the same keys may share a batch if the client does not know
// the servers ([Options.Spread]), and for a minute after a server has refused a batch because of its
// keys.
func (s *Store) Place(keys ...string) (shard, where string, err error) {
	if err := s.checkSamePlace(keys); err != nil || len(keys) == 0 {
		return "", "", err
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		key := s.key(keys[0])
		shard, where = primaryAddr(c, key), strconv.Itoa(slot(key))
	case *redis.Ring:
		where = hashTag(s.key(keys[0]))
	}
	if s.isSeparate() {
		where += joinKeys(keys)
	}
	return shard, where, nil
}

// separateTime is how long requests with different keys use different scripts after a server has
// refused a batch. It ends because the user's permissions or the place of a slot may change.
const separateTime = time.Minute

func (s *Store) separateKeys() {
	until := time.Now().Add(separateTime)
	s.separateUntil.Store(&until)
}

func (s *Store) isSeparate() bool {
	until := s.separateUntil.Load()
	return s.alwaysSeparate || until != nil && time.Now().Before(*until)
}

// joinKeys returns the same text for the same keys only.
func joinKeys(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	var b strings.Builder
	for _, key := range keys {
		b.WriteString(strconv.Itoa(len(key)))
		b.WriteByte(':')
		b.WriteString(key)
	}
	return b.String()
}

// cachedOnly is a context that has ended, so that the client sends nothing.
var cachedOnly = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// primaryAddr returns the address of the server of key, or "" if the client does not know it yet.
func primaryAddr(c *redis.ClusterClient, key string) string {
	primary, err := c.MasterForKey(cachedOnly, key)
	if err != nil {
		return ""
	}
	return primary.Options().Addr
}
