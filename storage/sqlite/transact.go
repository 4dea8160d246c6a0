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
	u := collect(updates)
	err := ctx.Err()
	if err != nil {
		err = storage.NotApplied(err)
	} else if len(u.valid) > 0 {
		err = s.transaction(ctx, func(c *connection) error { return s.apply(c, clock, u) })
	}
	if err != nil {
		for _, each := range updates {
			each.Err = cmp.Or(each.Err, err)
		}
	}
	return err
}

// apply reads the keys, runs the updates and writes the changes.
func (s *Store) apply(c *connection, clock func() time.Time, u *updates) (err error) {
	own := s.clock()
	at, now := own, own.UnixNano()
	if clock != nil {
		at = clock()
	}
	if u.found, err = s.load(c, u.keys, now); err != nil {
		return err
	}
	return s.write(c, u.decide(at), now)
}

// updates holds the updates of one transaction, and the records that they use.
type updates struct {
	valid []*driver.Update
	keys  []string
	index map[string]int   // of each key in keys
	found []storage.Record // before the updates
	swaps []storage.Swap   // from the found record to the record after the updates

	states  [][]byte // of the keys of an update
	changes []driver.Change
}

// collect returns the updates with valid keys. It sets Err of the others.
func collect(all []*driver.Update) *updates {
	n := len(all)
	u := &updates{valid: make([]*driver.Update, 0, n), keys: make([]string, 0, n), index: make(map[string]int, n)}
	for _, each := range all {
		if each.Err = driver.CheckKeys(each.Keys); each.Err != nil {
			continue
		}
		u.valid = append(u.valid, each)
		for _, key := range each.Keys {
			if _, ok := u.index[key]; !ok {
				u.index[key] = len(u.keys)
				u.keys = append(u.keys, key)
			}
		}
	}
	return u
}

// decide runs the updates one after the other, and returns the swaps that change a record.
func (u *updates) decide(at time.Time) []storage.Swap {
	u.swaps = make([]storage.Swap, len(u.keys))
	for i, r := range u.found {
		u.swaps[i] = storage.Swap{Key: u.keys[i], Old: r.Version, New: r}
	}
	for _, each := range u.valid {
		each.Now = at
		each.Err = u.decideOne(each)
	}
	return slices.DeleteFunc(u.swaps, func(w storage.Swap) bool { return w.New.Version == w.Old })
}

func (u *updates) decideOne(each *driver.Update) error {
	u.states, u.changes = u.states[:0], u.changes[:0]
	for _, key := range each.Keys {
		u.states, u.changes = append(u.states, u.swaps[u.index[key]].New.State), append(u.changes, driver.Change{})
	}
	if err := each.Decider.Decide(u.states, u.changes); err != nil {
		return err
	}
	if err := driver.CheckChanges(each.Keys, u.changes); err != nil {
		return err
	}
	version := storage.NewVersion()
	for i, key := range each.Keys {
		w, c := &u.swaps[u.index[key]], &u.changes[i]
		switch c.Verb {
		case driver.Put:
			w.New = storage.Record{Version: version, State: append([]byte{}, c.State...)}
			w.TTL, w.Until = c.TTL, each.Now.Add(c.TTL)
		case driver.Delete:
			w.New = storage.Record{}
		}
	}
	return nil
}
