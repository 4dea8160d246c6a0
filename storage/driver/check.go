package driver

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Check returns an error if swaps are invalid for every store: [storage.ErrKey],
// [storage.ErrDuplicateKey] or [storage.ErrSwap]. Every store calls it first in CompareAndSwap.
func Check(swaps []storage.Swap) error {
	for i := range swaps {
		if err := checkSwap(&swaps[i]); err != nil {
			return err
		}
	}
	return checkDuplicates(len(swaps), func(i int) string { return swaps[i].Key })
}

// CheckKeys returns [storage.ErrKey] if a key is too long, and [storage.ErrDuplicateKey] if a key
// occurs twice.
func CheckKeys(keys []string) error {
	if err := CheckLoad(keys); err != nil {
		return err
	}
	return checkDuplicates(len(keys), func(i int) string { return keys[i] })
}

// CheckLoad returns [storage.ErrKey] if a key is too long. Every store calls it first in Load.
func CheckLoad(keys []string) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	return nil
}

// CheckChanges returns [storage.ErrSwap] if a change is invalid. changes[i] belongs to keys[i].
// Every [InPlace] store and every [Transactor] calls it with the changes that a Decider made.
func CheckChanges(keys []string, changes []Change) error {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Verb > Delete:
			return fmt.Errorf("%w: the change of key %.40q has the unknown verb %d", storage.ErrSwap, keys[i], c.Verb)
		case c.Verb == Put && c.TTL < 0:
			return ttlError(keys[i], c.TTL)
		case c.Priority > storage.UsedUp:
			return priorityError(keys[i], c.Priority)
		}
	}
	return nil
}

func checkSwap(s *storage.Swap) error {
	switch {
	case s.New.Version == 0 && len(s.New.State) > 0:
		return fmt.Errorf("%w: key %.40q has a new state of %d bytes without a version; use storage.NewVersion", storage.ErrSwap, s.Key, len(s.New.State))
	case s.TTL < 0:
		return ttlError(s.Key, s.TTL)
	case s.Priority > storage.UsedUp:
		return priorityError(s.Key, s.Priority)
	}
	return checkKey(s.Key)
}

func checkKey(key string) error {
	if len(key) > storage.MaxKey {
		return fmt.Errorf("%w: it has %d bytes, but at most %d are allowed; use driver.AppendKey, which shortens keys", storage.ErrKey, len(key), storage.MaxKey)
	}
	return nil
}

func checkDuplicates(n int, key func(int) string) error {
	if n <= 16 { // comparing all pairs is faster than a map, and does not allocate
		for i := 1; i < n; i++ {
			for j := range i {
				if key(i) == key(j) {
					return duplicateError(key(i))
				}
			}
		}
		return nil
	}
	known := make(map[string]bool, n)
	for i := range n {
		if known[key(i)] {
			return duplicateError(key(i))
		}
		known[key(i)] = true
	}
	return nil
}

func ttlError(key string, ttl time.Duration) error {
	return fmt.Errorf("%w: key %.40q has the TTL %v; it must not be negative", storage.ErrSwap, key, ttl)
}

func priorityError(key string, p storage.Priority) error {
	return fmt.Errorf("%w: key %.40q has the unknown priority %d", storage.ErrSwap, key, p)
}

func duplicateError(key string) error {
	return fmt.Errorf("%w: %.40q", storage.ErrDuplicateKey, key)
}
