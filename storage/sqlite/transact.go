package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Transact implements [driver.Transactor]. It reads each key once and writes each changed key once, even
// if several updates use the key.
func (s *Store) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	u := collect(updates)
	if err := ctx.Err(); err != nil {
		return fail(updates, storage.NotApplied(err))
	}
	if len(u.valid) == 0 {
		return nil
	}
	err := s.transaction(ctx, func(c *connection) error { return s.apply(c, clock, u) })
	if err != nil {
		return fail(updates, err)
	}
	return nil
}

// fail sets err for all updates that have no error of their own, and returns err.
func fail(updates []*driver.Update, err error) error {
	for _, u := range updates {
		if u.Err == nil {
			u.Err = err
		}
	}
	return err
}

// apply reads the keys, runs the updates and writes the changes. It calls the clocks and the updates
// outside of raw, because they may panic.
func (s *Store) apply(c *connection, clock func() time.Time, u *updates) error {
	own := s.clock()
	at, now := own, own.UnixNano()
	if clock != nil {
		at = clock()
	}
	if err := c.raw(func() error { return s.loadSwaps(c, u.swaps, now) }); err != nil {
		return err
	}
	u.decide(at)
	return c.raw(func() error { return s.storeSwaps(c, u.swaps, now) })
}

// loadSwaps sets Old and New of each swap to the stored record.
func (s *Store) loadSwaps(c *connection, swaps []storage.Swap, now int64) error {
	row := make([]sqldriver.Value, 2)
	for i := range swaps {
		w := &swaps[i]
		var err error
		if w.New, err = s.loadKey(c, row, w.Key, now); err != nil {
			return err
		}
		w.Old = w.New.Version
	}
	return nil
}

// storeSwaps writes the swaps that change a record.
func (s *Store) storeSwaps(c *connection, swaps []storage.Swap, now int64) error {
	for i := range swaps {
		if w := &swaps[i]; w.New.Version != w.Old {
			if err := s.write(c, w, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// updates holds the updates of one transaction, and the records that they use.
type updates struct {
	valid []*driver.Update
	swaps []storage.Swap // one for each key, from the stored record to the record after the updates
	index map[string]int // the index in swaps of each key
	found [][]byte
	next  []driver.Change
}

// collect returns the updates with valid keys. It sets Err of the others.
func collect(all []*driver.Update) *updates {
	u := &updates{valid: make([]*driver.Update, 0, len(all)), swaps: make([]storage.Swap, 0, len(all)), index: make(map[string]int, len(all))}
	for _, each := range all {
		if each.Err = driver.CheckKeys(each.Keys); each.Err != nil {
			continue
		}
		u.valid = append(u.valid, each)
		for _, key := range each.Keys {
			if _, ok := u.index[key]; !ok {
				u.index[key] = len(u.swaps)
				u.swaps = append(u.swaps, storage.Swap{Key: key})
			}
		}
	}
	return u
}

// decide runs the updates one after the other.
func (u *updates) decide(at time.Time) {
	for _, each := range u.valid {
		each.Now = at
		each.Err = u.decideOne(each)
	}
}

func (u *updates) decideOne(each *driver.Update) error {
	u.found, u.next = u.found[:0], u.next[:0]
	for _, key := range each.Keys {
		u.found, u.next = append(u.found, u.swaps[u.index[key]].New.State), append(u.next, driver.Change{})
	}
	if err := each.Decider.Decide(u.found, u.next); err != nil {
		return err
	}
	if err := driver.CheckChanges(each.Keys, u.next); err != nil {
		return err
	}
	version := storage.NewVersion()
	for i, key := range each.Keys {
		change(&u.swaps[u.index[key]], &u.next[i], version, each.Now)
	}
	return nil
}

// change applies one change of an update to the swap of its key.
func change(w *storage.Swap, c *driver.Change, version storage.Version, at time.Time) {
	switch c.Verb {
	case driver.Put:
		w.New = storage.Record{Version: version, State: append([]byte{}, c.State...)}
		w.TTL, w.Until = c.TTL, at.Add(c.TTL)
	case driver.Delete:
		w.New = storage.Record{}
	}
}
