package memory

import (
	"context"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// scratch is what an update shows its decider. Each shard has one; the first of
// those that are locked lends it, so that no update allocates.
type scratch struct {
	found  [][]byte
	next   []storage.Change
	buffer []byte
}

func (s *Store) scratch(locked uint64) *scratch {
	return &s.shards[bits.TrailingZeros64(locked)].scratch
}

// Update decides in place; see [storage.InPlace]. Keys that are absent, and more
// than MaxKeys, are refused with an error that is [storage.ErrNotApplied],
// whatever d would have decided.
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
	var few [Few]Name
	var fewNumbers [Few]uint32
	names, numbers, at := few[:0], fewNumbers[:0], instant(now)
	for _, key := range keys {
		names, numbers = append(names, NameOf(key)), append(numbers, 0)
	}
	locked, reserved, err := s.acquire(names, numbers, at)
	if err != nil {
		return err
	}
	defer func() { s.release(locked, reserved) }()
	w := s.scratch(locked)
	defer w.clear()
	for i, n := range names {
		w.found, w.next = append(w.found, s.table(n).state(numbers[i], at)), append(w.next, storage.Change{})
	}
	if err := d.Decide(w.found, w.next); err != nil {
		return err
	}
	if err := storage.CheckChanges(keys, w.next); err != nil {
		return err
	}
	reserved -= s.apply(names, numbers, at, w.next)
	return nil
}

// apply makes the changes and says how many records it created.
func (s *Store) apply(names []Name, numbers []uint32, at int64, changes []storage.Change) (created int) {
	for i, n := range names {
		switch c := &changes[i]; c.Verb {
		case storage.Put:
			t := s.table(n)
			if t.put(n, numbers[i], t.nextVersion(), c.State, lapse(at, c.TTL)) {
				created++
			}
		case storage.Delete:
			s.remove(n)
		}
	}
	return created
}

// clear lets go of what is not the store's.
func (w *scratch) clear() {
	clear(w.found)
	clear(w.next)
	w.found, w.next = w.found[:0], w.next[:0]
}
