package memstore

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// scratch holds the arguments of a Decider, so that an update does not allocate. An update uses the
// scratch of the first shard that it locks.
type scratch struct {
	found  [][]byte
	next   []driver.Change
	buffer []byte // of Cell.Buffer
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
	var array [8]Name
	names, at := array[:0], instant(now)
	for _, key := range keys {
		names = append(names, s.Name(key))
	}
	if err := update(names, at, keys, d); err != nil {
		return err
	}
	s.evict(names, at)
	return nil
}

func update(names []Name, at int64, keys []string, d driver.Decider) error {
	var array [8]*shard
	locked := lockShards(array[:0], names)
	defer unlockShards(locked)
	w := &locked[0].scratch
	defer w.clear()
	for _, n := range names {
		w.found, w.next = append(w.found, n.shard().table.state(n.hash, at)), append(w.next, driver.Change{})
	}
	if err := d.Decide(w.found, w.next); err != nil {
		return err
	}
	if err := driver.CheckChanges(keys, w.next); err != nil {
		return err
	}
	for i, n := range names {
		switch t, c := &n.shard().table, &w.next[i]; c.Verb {
		case driver.Put:
			t.put(n.hash, c.State, properties{t.nextVersion(), expiry(at, c.TTL), c.Priority})
		case driver.Delete:
			t.remove(n.hash)
		}
	}
	return nil
}

// clear removes references to memory of the Decider.
func (w *scratch) clear() {
	clear(w.found)
	clear(w.next)
	w.found, w.next = w.found[:0], w.next[:0]
}
