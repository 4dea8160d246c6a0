package memory

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// scratch is what an update shows its decider. Each shard has one; the first of those
// that are locked lends it, so that no update allocates.
type scratch struct {
	found [][]byte
	next  []storage.Change
}

// Update decides in place; see [storage.InPlace]. Keys that are absent, and more than
// MaxKeys, are refused with an error that is [storage.ErrNotApplied], whatever
// d would have decided.
func (s *Store) Update(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if err := storage.CheckKeys(keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		return d.Decide(nil, nil)
	}
	var few [8]name
	names, at := few[:0], instant(now)
	for _, key := range keys {
		names = append(names, nameOf(key))
	}
	for {
		missing, err := s.update(names, at, keys, d)
		if missing == 0 {
			return err
		}
		if err := s.makeRoom(missing, at); err != nil {
			return err
		}
	}
}

// update is one attempt. When there is no room for the keys that are absent, it did
// not ask d, and missing says how many they are.
func (s *Store) update(names []name, at int64, keys []string, d storage.Decider) (missing int, err error) {
	locked := s.lock(names)
	defer s.unlock(locked)
	w := &s.shards[bits.TrailingZeros64(locked)].scratch
	defer w.clear()
	room := 0
	for _, n := range names {
		state, held := s.table(n).look(n, at)
		if !held {
			room++
		}
		w.found, w.next = append(w.found, state), append(w.next, storage.Change{})
	}
	if !s.reserve(room) {
		return room, nil
	}
	defer func() { s.keys.Add(int64(-room)) }() // what was not needed after all
	if err := d.Decide(w.found, w.next); err != nil {
		return 0, err
	}
	if err := check(keys, w.next); err != nil {
		return 0, err
	}
	room -= s.apply(names, at, w.next)
	return 0, nil
}

// apply makes the changes and says how many records it created.
func (s *Store) apply(names []name, at int64, changes []storage.Change) (created int) {
	version := storage.NewVersion()
	for i, n := range names {
		switch c := &changes[i]; c.Verb {
		case storage.Put:
			if s.table(n).put(n, version, c.State, lapse(at, c.TTL)) {
				created++
			}
		case storage.Delete:
			s.remove(n)
		}
	}
	return created
}

func check(keys []string, changes []storage.Change) error {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Verb > storage.Delete:
			return fmt.Errorf("%w: key %.40q has the verb %d", storage.ErrSwap, keys[i], c.Verb)
		case c.Verb == storage.Put && c.TTL < 0:
			return fmt.Errorf("%w: key %.40q has a TTL of %v", storage.ErrSwap, keys[i], c.TTL)
		}
	}
	return nil
}

// clear lets go of what is not the store's.
func (w *scratch) clear() {
	clear(w.found)
	clear(w.next)
	w.found, w.next = w.found[:0], w.next[:0]
}
