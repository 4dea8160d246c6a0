package memstore

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// scratch is what an update shows its decider. Each shard has one; the first of
// those that are locked lends it, so that no update allocates.
type scratch struct {
	found  [][]byte
	next   []driver.Change
	buffer []byte
}

// Update decides in place; see [driver.InPlace].
func (s *Store) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if err := driver.CheckKeys(keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		return d.Decide(nil, nil)
	}
	var few [8]Name
	names, at := few[:0], instant(now)
	for _, key := range keys {
		names = append(names, s.Name(key))
	}
	created, err := update(names, at, keys, d)
	for _, n := range names[:created] {
		s.makeRoom(n, at)
	}
	return err
}

// update decides under the locks of names. It moves the names of the records that it created
// to the front, and returns how many they are.
func update(names []Name, at int64, keys []string, d driver.Decider) (created int, err error) {
	var few [8]*shard
	locked := lockAll(few[:0], names)
	defer unlockAll(locked)
	w := &locked[0].scratch
	defer w.clear()
	for _, n := range names {
		t := &n.shard().table
		w.found, w.next = append(w.found, t.state(t.find(n.hash), at)), append(w.next, driver.Change{})
	}
	if err := d.Decide(w.found, w.next); err != nil {
		return 0, err
	}
	if err := driver.CheckChanges(keys, w.next); err != nil {
		return 0, err
	}
	for i, n := range names {
		if apply(n, at, &w.next[i]) {
			names[created] = n
			created++
		}
	}
	return created, nil
}

// apply makes a change, and reports whether that created a record.
func apply(n Name, at int64, c *driver.Change) (created bool) {
	t := &n.shard().table
	switch c.Verb {
	case driver.Put:
		return t.put(n.hash, t.find(n.hash), c.State, content{t.nextVersion(), lapse(at, c.TTL), c.Priority})
	case driver.Delete:
		t.remove(n.hash)
	}
	return false
}

// clear lets go of what is not the store's.
func (w *scratch) clear() {
	clear(w.found)
	clear(w.next)
	w.found, w.next = w.found[:0], w.next[:0]
}
