package redis

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// ErrCrossSlot is returned for a decision whose keys lie in different slots of
// a Redis Cluster, or on different shards of a Ring. Give them a common group,
// see compose.Options.Group. It implies storage.ErrKey.
var ErrCrossSlot error = crossSlot{}

type crossSlot struct{}

func (crossSlot) Error() string { return "redis: keys of one decision lie in different slots" }

func (crossSlot) Is(target error) bool {
	return target == storage.ErrKey || target == storage.ErrNotApplied
}

// key is the name of a record. The hash tag comes first: empty, it leaves the
// placing to the whole key; else it is the group, which must not end it early.
func (s *Store) key(key string) string { return string(s.appendKey(nil, key)) }

func (s *Store) appendKey(dst []byte, key string) []byte {
	dst = append(append(dst, s.prefix...), '{')
	dst = append(append(dst, tag(key)...), '}')
	return append(dst, key...)
}

func tag(key string) string {
	return strings.ReplaceAll(driver.KeyGroup(key), "}", ")")
}

// placing is how a client finds the server of a key.
type placing int

const (
	anywhere placing = iota // there is one server
	bySlot                  // Redis Cluster
	byTag                   // redis.Ring
)

func placingOf(client redis.UniversalClient) placing {
	switch client.(type) {
	case *redis.ClusterClient:
		return bySlot
	case *redis.Ring:
		return byTag
	}
	return anywhere
}

// checkTogether reports two keys that do not lie in one place.
func (s *Store) checkTogether(one, other string) error {
	if s.place == anywhere {
		return nil
	}
	a, b := s.key(one), s.key(other)
	switch {
	case s.place == bySlot && slot(a) != slot(b):
		return fmt.Errorf("%w: %.40q in %d and %.40q in %d; give them a common group", ErrCrossSlot, a, slot(a), b, slot(b))
	case s.place == byTag && hashed(a) != hashed(b):
		return fmt.Errorf("%w: %.40q and %.40q; give them a common group", ErrCrossSlot, a, b)
	}
	return nil
}

// hashed is the part of a key that places it: what stands between the first {
// and the next }, or all of it where that is nothing.
func hashed(key string) string {
	_, rest, open := strings.Cut(key, "{")
	if inner, _, closed := strings.Cut(rest, "}"); open && closed && inner != "" {
		return inner
	}
	return key
}

// slot is the slot of a key in Redis Cluster: CRC-16/XMODEM modulo 16384.
func slot(key string) int {
	var crc uint16
	for _, c := range []byte(hashed(key)) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc & 0x3fff)
}
