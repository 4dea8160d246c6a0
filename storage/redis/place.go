package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// ErrCrossSlot means that the keys of a call have different hash tags. Set sluice.Options.Group. It wraps storage.ErrKey.
var ErrCrossSlot = fmt.Errorf("redis: %w: the keys of one call have different hash tags", storage.ErrKey)

// key returns the name of a record. The group of a driver.RuleKey is its hash tag. Without a group, the whole name determines
// the slot.
func (s *Store) key(key string) string { return s.prefix + key }

// Place implements [driver.Server]. In a Redis Cluster or a Ring, shard is the address of the server, and slot the hash tag.
func (s *Store) Place(keys ...string) (shard, slot string, err error) {
	slot, err = s.placeOf(keys)
	if err != nil {
		return "", "", err
	}
	if s.serverOf != nil {
		if server, _ := s.serverOf(slot); server != nil { // the server of a hash tag has all names with it
			shard = server.Options().Addr
		}
	}
	if until := s.separateUntil.Load(); s.separate || until != 0 && time.Now().UnixNano() < until {
		slot = fmt.Sprintf("%s%q", slot, keys)
	}
	return shard, slot, nil
}

// cachedOnly is a context that has ended, so that the client sends nothing.
var cachedOnly, _ = context.WithTimeout(context.Background(), 0)

// placeOf returns the hash tag of keys in a Redis Cluster or a Ring, and otherwise "". If the keys have
// different hash tags, it returns ErrCrossSlot.
func (s *Store) placeOf(keys []string) (string, error) {
	if s.serverOf == nil || len(keys) == 0 {
		return "", nil
	}
	first := s.key(keys[0])
	for _, key := range keys[1:] {
		if name := s.key(key); hashTag(name) != hashTag(first) {
			return "", &storage.KeyError{Key: key, Err: fmt.Errorf("%w; give them a common group", ErrCrossSlot)}
		}
	}
	return hashTag(first), nil
}

// separateTime is how long requests with different keys use different scripts after a server has
// refused a batch. It ends because the user's permissions or the place of a slot may change.
const separateTime = time.Minute

// hashTag returns the part of a name that determines its slot: the text between the first { and the next }, or the whole name if
// there is none.
func hashTag(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
		return tag
	}
	return name
}
