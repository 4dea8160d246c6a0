package sqlite

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func (s *Store) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	var keys []string
	swaps, ofItems := map[string]*storage.Swap{}, make([]*storage.Swap, 0, len(updates)) // by key; of each item
	for _, u := range updates {
		for i := range u.Items {
			key := u.Items[i].Key.String()
			if swaps[key] == nil {
				keys, swaps[key] = append(keys, key), &storage.Swap{Key: key}
			}
			ofItems = append(ofItems, swaps[key])
		}
	}
	return s.transaction(ctx, func(c *connection) error {
		now := s.clock()
		at := now
		if clock != nil {
			at = clock()
		}
		found, err := s.load(c, keys, now.UnixNano())
		if err != nil {
			return err
		}
		for i, key := range keys {
			swaps[key].Old, swaps[key].New = found[i].Version, found[i]
		}
		rest := ofItems
		for _, u := range updates {
			decide(u, at, now, rest[:len(u.Items)])
			rest = rest[len(u.Items):]
		}
		var changed []storage.Swap
		for _, key := range keys {
			if w := swaps[key]; w.New.Version != w.Old {
				changed = append(changed, *w)
			}
		}
		return s.write(c, changed, now.UnixNano())
	})
}

// decide runs an update on the new records of the swaps of its items, at now, when the clock of the store shows stored.
func decide(u *driver.Update, now, stored time.Time, swaps []*storage.Swap) {
	for i, w := range swaps {
		u.Items[i].Found, u.Items[i].Next = w.New, driver.Change{}
	}
	if !u.Decide(now) {
		return
	}
	version := storage.NewVersion()
	for i, w := range swaps {
		switch c := &u.Items[i].Next; c.Verb {
		case driver.Put:
			w.New = storage.Record{Version: version, State: append([]byte{}, c.State...), TTL: c.TTL}
			w.TTL = driver.KeepFor(c.TTL, now, stored)
		case driver.Delete:
			w.New = storage.Record{}
		}
	}
}
