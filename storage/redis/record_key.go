package redis

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// ErrCrossSlot is returned for a decision whose keys are in different slots of a Redis Cluster, or
// on different shards of a Ring. To avoid it, give the keys a common group with
// compose.Options.Group. errors.Is reports true for it and storage.ErrKey, and for it and
// storage.ErrNotApplied.
var ErrCrossSlot error = crossSlot{}

type crossSlot struct{}

func (crossSlot) Error() string { return "redis: the keys of one decision are in different slots" }

func (crossSlot) Is(target error) bool {
	return target == storage.ErrKey || target == storage.ErrNotApplied
}

// key returns the name of a record in Redis: PREFIX{GROUP}KEY. If the group is empty, Redis
// computes the slot from the whole name.
func (s *Store) key(key string) string { return string(s.appendKey(nil, key)) }

func (s *Store) appendKey(dst []byte, key string) []byte {
	group := strings.ReplaceAll(driver.KeyGroup(key), "}", ")") // a brace would end the hash tag too early
	dst = append(append(dst, s.prefix...), '{')
	dst = append(append(dst, group...), '}')
	return append(dst, key...)
}

// placement is how a client finds the server of a key.
type placement int

const (
	oneServer placement = iota // there is one server, or the type of the client is unknown
	bySlot                     // Redis Cluster
	byHashTag                  // redis.Ring
)

// checkSamePlace returns ErrCrossSlot if the keys need not be on one server.
func (s *Store) checkSamePlace(keys []string) error {
	if s.placement == oneServer || len(keys) < 2 {
		return nil
	}
	a := s.key(keys[0])
	for _, key := range keys[1:] {
		b := s.key(key)
		switch {
		case s.placement == bySlot && slot(a) != slot(b):
			return fmt.Errorf("%w: %.40q in %d and %.40q in %d; give them a common group", ErrCrossSlot, a, slot(a), b, slot(b))
		case s.placement == byHashTag && hashTag(a) != hashTag(b):
			return fmt.Errorf("%w: %.40q and %.40q; give them a common group", ErrCrossSlot, a, b)
		}
	}
	return nil
}

// hashTag returns the part of a key that determines its slot: the text between the first { and the
// next }, or the whole key if there is no such text.
func hashTag(key string) string {
	_, rest, open := strings.Cut(key, "{")
	if inner, _, closed := strings.Cut(rest, "}"); open && closed && inner != "" {
		return inner
	}
	return key
}

// slot returns the slot of a key in Redis Cluster: CRC-16/XMODEM modulo 16384.
func slot(key string) int {
	var crc uint16
	for _, c := range []byte(hashTag(key)) {
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
