package memory

import (
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Few is the most records that a [Hold] can hold.
const Few = 4

// Hold is what [Store.Update] does, for a caller who knows that the store is this
// one: up to Few records are locked during the decision. No interface stands
// between, so nothing that it is made with need be allocated. The zero Hold holds
// nothing. While it holds something it must not be copied, and the store must not
// be used otherwise by its goroutine.
type Hold struct {
	store   *Store
	at      int64
	n       int
	locks   int
	locked  [Few]*shard
	names   [Few]Name
	numbers [Few]uint32
	created [Few]bool
}

// Hold locks the records of names, which must differ. Release must follow, even if the
// caller panics.
func (s *Store) Hold(h *Hold, now time.Time, names ...Name) {
	h.store, h.at, h.n = s, instant(now), copy(h.names[:], names)
	h.locks = len(lockAll(h.locked[:0], h.names[:h.n]))
	for i := range h.n {
		h.numbers[i], h.created[i] = h.table(i).find(h.names[i].hash), false
	}
}

func (h *Hold) table(i int) *table { return &h.names[i].shard().table }

// State is the state of the i-th record, nil when it is absent. It may be read
// until the record is changed, and not modified.
func (h *Hold) State(i int) []byte { return h.table(i).state(h.numbers[i], h.at) }

// Buffer is empty, to be appended to, and the caller's until Release. What became
// of it is handed back with Keep, so that it need not grow again.
func (h *Hold) Buffer() []byte { return h.locked[0].scratch.buffer[:0] }

// Keep takes back what became of Buffer.
func (h *Hold) Keep(buffer []byte) { h.locked[0].scratch.buffer = buffer }

// Put stores a copy of state for the i-th record, for as long as
// [storage.Swap.TTL] says, which must not be negative.
func (h *Hold) Put(i int, state []byte, ttl time.Duration, p storage.Priority) {
	t := h.table(i)
	h.created[i] = t.put(h.names[i].hash, h.numbers[i], state, content{t.nextVersion(), lapse(h.at, ttl), p})
}

// Delete removes the i-th record, if there is one.
func (h *Hold) Delete(i int) { h.table(i).remove(h.names[i].hash) }

// Release unlocks what is held.
func (h *Hold) Release() {
	unlockAll(h.locked[:h.locks])
	for i := range h.n {
		if h.created[i] {
			h.store.makeRoom(h.names[i], h.at)
		}
	}
}
