package driver

import (
	"fmt"

	"github.com/sluice-go/sluice/storage"
)

// Check reports what no store can do in swaps: [storage.ErrKey], [storage.ErrDuplicateKey] or
// [storage.ErrSwap]. Every store calls it first.
func Check(swaps []storage.Swap) error {
	for i := range swaps {
		if err := checkSwap(&swaps[i]); err != nil {
			return err
		}
	}
	return checkDuplicates(len(swaps), func(i int) string { return swaps[i].Key })
}

// CheckKeys reports what no store can do with keys that must differ: [storage.ErrKey] or
// [storage.ErrDuplicateKey].
func CheckKeys(keys []string) error {
	if err := CheckLoad(keys); err != nil {
		return err
	}
	return checkDuplicates(len(keys), func(i int) string { return keys[i] })
}

// CheckLoad reports what no store can load: [storage.ErrKey].
func CheckLoad(keys []string) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	return nil
}

// CheckChanges reports what no store can do with changes of keys: [storage.ErrSwap]. Every
// [InPlace] store and every [Transactor] calls it with what was decided.
func CheckChanges(keys []string, changes []Change) error {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Verb > Delete:
			return fmt.Errorf("%w: key %.40q has the verb %d", storage.ErrSwap, keys[i], c.Verb)
		case c.Verb == Put && c.TTL < 0:
			return fmt.Errorf("%w: key %.40q has a TTL of %v", storage.ErrSwap, keys[i], c.TTL)
		case c.Priority > storage.UsedUp:
			return fmt.Errorf("%w: key %.40q has the priority %d", storage.ErrSwap, keys[i], c.Priority)
		}
	}
	return nil
}

func checkSwap(s *storage.Swap) error {
	switch {
	case s.New.Version == 0 && len(s.New.State) > 0:
		return fmt.Errorf("%w: key %.40q has a state of %d bytes and no version", storage.ErrSwap, s.Key, len(s.New.State))
	case s.TTL < 0:
		return fmt.Errorf("%w: key %.40q has a TTL of %v", storage.ErrSwap, s.Key, s.TTL)
	case s.Priority > storage.UsedUp:
		return fmt.Errorf("%w: key %.40q has the priority %d", storage.ErrSwap, s.Key, s.Priority)
	}
	return checkKey(s.Key)
}

func checkKey(key string) error {
	if len(key) > storage.MaxKey {
		return fmt.Errorf("%w: %d bytes, at most %d (AppendKey shortens)", storage.ErrKey, len(key), storage.MaxKey)
	}
	return nil
}

// pairwise is up to how many keys comparing each with each beats a map.
const pairwise = 16

func checkDuplicates(n int, key func(int) string) error {
	if n <= pairwise {
		for i := 1; i < n; i++ {
			for j := range i {
				if key(i) == key(j) {
					return duplicate(key(i))
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, n)
	for i := range n {
		if _, ok := seen[key(i)]; ok {
			return duplicate(key(i))
		}
		seen[key(i)] = struct{}{}
	}
	return nil
}

func duplicate(key string) error {
	return fmt.Errorf("%w: %.40q", storage.ErrDuplicateKey, key)
}
