package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Transact implements [driver.Transactor]. It reads each key once and writes each changed key once, even
// if several updates use the key.
func (s *Store) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	all, keys := make([]placed, 0, len(updates)), make([]string, 0, len(updates))
	index := make(map[string]int, len(updates)) // the place of each key in keys
	for _, u := range updates {
		p := placed{u, make([]int, len(u.Items))}
		for i := range u.Items {
			key := u.Items[i].Key.String()
			place, ok := index[key]
			if !ok {
				place = len(keys)
				index[key], keys = place, append(keys, key)
			}
			p.places[i] = place
		}
		all = append(all, p)
	}
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if len(updates) == 0 {
		return nil
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
		swaps := make([]storage.Swap, len(keys)) // from the found record to that after the updates
		for i, r := range found {
			swaps[i] = storage.Swap{Key: keys[i], Old: r.Version, New: r}
		}
		for _, u := range all {
			u.decide(at, swaps)
		}
		unchanged := func(w storage.Swap) bool { return w.New.Version == w.Old }
		return s.write(c, slices.DeleteFunc(swaps, unchanged), now.UnixNano())
	})
}

// placed is an update with the places of its keys among all keys of the transaction.
type placed struct {
	*driver.Update
	places []int
}

// decide runs an update on the new records of the swaps.
func (u placed) decide(now time.Time, swaps []storage.Swap) {
	for i, place := range u.places {
		u.Items[i].Found, u.Items[i].Next = swaps[place].New, driver.Change{}
	}
	if !u.Decide(now) {
		return
	}
	version := storage.NewVersion()
	for i, place := range u.places {
		w, c := &swaps[place], &u.Items[i].Next
		switch c.Verb {
		case driver.Put:
			w.New = storage.Record{Version: version, State: append([]byte{}, c.State...), TTL: c.TTL}
			w.TTL, w.Until = c.TTL, now.Add(c.TTL)
		case driver.Delete:
			w.New = storage.Record{}
		}
	}
}
