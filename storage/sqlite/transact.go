package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Transact implements [driver.Transactor]. It reads each key once and writes each changed key once, even
// if several updates use the key.
func (s *Store) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	valid, keys := make([]*driver.Update, 0, len(updates)), make([]string, 0, len(updates))
	index, most := make(map[string]int, len(updates)), 0 // the place of each key in keys, and the most keys of an update
	for _, u := range updates {
		if u.Err = driver.CheckKeys(u.Keys); u.Err != nil {
			continue
		}
		valid, most = append(valid, u), max(most, len(u.Keys))
		for _, key := range u.Keys {
			if _, ok := index[key]; !ok {
				index[key] = len(keys)
				keys = append(keys, key)
			}
		}
	}
	err := ctx.Err()
	if err != nil {
		err = storage.NotApplied(err)
	} else if len(valid) > 0 {
		err = s.transaction(ctx, func(c *connection) error {
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
			states, changes := make([][]byte, most), make([]driver.Change, most)
			for _, u := range valid {
				u.Now = at
				u.Err = decide(u, swaps, index, states[:len(u.Keys)], changes[:len(u.Keys)])
			}
			unchanged := func(w storage.Swap) bool { return w.New.Version == w.Old }
			return s.write(c, slices.DeleteFunc(swaps, unchanged), now.UnixNano())
		})
	}
	if err != nil {
		for _, u := range updates {
			u.Err = cmp.Or(u.Err, err)
		}
	}
	return err
}

// decide runs an update on the new records of the swaps. It overwrites states and changes.
func decide(u *driver.Update, swaps []storage.Swap, index map[string]int, states [][]byte,
	changes []driver.Change) error {
	clear(changes)
	for i, key := range u.Keys {
		states[i] = swaps[index[key]].New.State
	}
	if err := u.Decider.Decide(states, changes); err != nil {
		return err
	}
	if err := driver.CheckChanges(u.Keys, changes); err != nil {
		return err
	}
	version := storage.NewVersion()
	for i, key := range u.Keys {
		w, c := &swaps[index[key]], &changes[i]
		switch c.Verb {
		case driver.Put:
			w.New = storage.Record{Version: version, State: append([]byte{}, c.State...)}
			w.TTL, w.Until = c.TTL, u.Now.Add(c.TTL)
		case driver.Delete:
			w.New = storage.Record{}
		}
	}
	return nil
}
