package memory

import "time"

// Few is the most records that a [Hold] can hold.
const Few = 4

// Hold is what [Store.Update] does, for a caller who knows that the store is this
// one: up to Few records are locked during the decision. No interface stands
// between, so nothing that it is made with need be allocated. The zero Hold holds
// nothing. While it holds something it must not be copied, and the store must not
// be used otherwise by its goroutine.
type Hold struct {
	store    *Store
	at       int64
	locked   uint64
	reserved int // records for which there is room, of those that are absent
	n        int
	names    [Few]Name
	numbers  [Few]uint32
}

// Hold locks the records of names, which must differ. Unless it returns an
// error, which is [storage.ErrNotApplied], Release must follow, even if the
// caller panics.
func (s *Store) Hold(h *Hold, now time.Time, names ...Name) (err error) {
	h.store, h.at, h.n = s, instant(now), copy(h.names[:], names)
	h.locked, h.reserved, err = s.acquire(h.names[:h.n], h.numbers[:h.n], h.at)
	return err
}

// State is the state of the i-th record, nil when it is absent. It may be read
// until the record is changed, and not modified.
func (h *Hold) State(i int) []byte {
	return h.store.table(h.names[i]).state(h.numbers[i], h.at)
}

// Buffer is empty, to be appended to, and the caller's until Release. What became
// of it is handed back with Keep, so that it need not grow again.
func (h *Hold) Buffer() []byte { return h.store.scratch(h.locked).buffer[:0] }

// Keep takes back what became of Buffer.
func (h *Hold) Keep(buffer []byte) { h.store.scratch(h.locked).buffer = buffer }

// Put stores a copy of state for the i-th record, for as long as
// [storage.Swap.TTL] says, which must not be negative.
func (h *Hold) Put(i int, state []byte, ttl time.Duration) {
	t := h.store.table(h.names[i])
	if t.put(h.names[i], h.numbers[i], t.nextVersion(), state, lapse(h.at, ttl)) {
		h.reserved--
	}
}

// Delete removes the i-th record, if there is one.
func (h *Hold) Delete(i int) { h.store.remove(h.names[i]) }

// Release unlocks what is held.
func (h *Hold) Release() { h.store.release(h.locked, h.reserved) }
