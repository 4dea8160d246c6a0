package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// write is the argument of the swap statement: all keys of all groups, in their
// order.
type write struct {
	all      [][]storage.Swap
	outcomes []storage.Outcome
	places   []place
	groups   int           // that have places
	patience time.Duration // how long to wait for a lock at most; 0: as long as there is time
	raced    map[int]bool  // the groups whose key was created by another meanwhile; nothing was done for them
}

// place is where a swap stands.
type place struct{ group, swap int }

// newWrite is of the groups that are open.
func newWrite(groups [][]storage.Swap, outcomes []storage.Outcome, open []int) *write {
	w := &write{all: groups, outcomes: outcomes, groups: len(open)}
	for _, g := range open {
		for i := range groups[g] {
			w.places = append(w.places, place{g, i})
		}
	}
	slices.SortFunc(w.places, func(a, b place) int {
		return cmp.Compare(w.swap(a).Key, w.swap(b).Key)
	})
	return w
}

// again is what is left to be written: the groups that were raced.
func (w *write) again() *write {
	rest := &write{all: w.all, outcomes: w.outcomes, groups: len(w.raced), patience: w.patience}
	for _, p := range w.places {
		if w.raced[p.group] {
			rest.places = append(rest.places, p)
		}
	}
	return rest
}

func (w *write) swap(p place) *storage.Swap { return &w.all[p.group][p.swap] }

// numbers are those of the groups, in the order of their first keys.
func (w *write) numbers() (groups []int) {
	seen := make(map[int]bool, w.groups)
	for _, p := range w.places {
		if !seen[p.group] {
			seen[p.group] = true
			groups = append(groups, p.group)
		}
	}
	return groups
}

// fail gives every group the same error.
func (w *write) fail(err error) {
	for _, p := range w.places {
		w.outcomes[p.group] = storage.Outcome{Err: err}
	}
}

// singles reports whether every group is of one key.
func (w *write) singles() bool { return w.groups == len(w.places) }

// undoes reports whether the statement fails if a key is created by another
// meanwhile.
func (w *write) undoes() bool {
	return !w.singles() && slices.ContainsFunc(w.places, func(p place) bool { return w.swap(p).Old == 0 })
}

// args returns the arguments of the statement. The columns come first: group, key, old
// version, new version, state, TTL in microseconds (0: for ever; -1: written as expired,
// which is deleted) and Until in microseconds since 1970. Then comes for how many
// milliseconds to wait for a lock, if not 0; and 1 if every group is of one key.
func (w *write) args(patience time.Duration) []any {
	n := len(w.places)
	groups, olds, news, ttls, untils := make([]int32, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, p := range w.places {
		s := w.swap(p)
		groups[i], keys[i], olds[i] = int32(p.group), []byte(s.Key), int64(s.Old)
		news[i], states[i] = int64(s.New.Version), s.New.State
		if states[i] == nil { // which would be NULL
			states[i] = []byte{}
		}
		ttls[i], untils[i] = expiry(s)
	}
	singles := int32(0)
	if w.singles() {
		singles = 1
	}
	return []any{groups, keys, olds, news, states, ttls, untils, int32(patience.Milliseconds()), singles}
}

// expiry returns the arguments by which the server computes when the record expires.
func expiry(s *storage.Swap) (ttl, until int64) {
	until = s.UntilUnix(time.Microsecond)
	switch {
	case s.New.Version == 0:
		return -1, 0
	case s.TTL == 0 || until == storage.FarUntil:
		return 0, 0
	}
	return int64((s.TTL-1)/time.Microsecond) + 1, until
}

// settle notes the answer for one key.
func (w *write) settle(l loser) {
	p := w.places[l.place-1]
	o := &w.outcomes[p.group]
	o.Swapped = false
	if l.raced {
		if w.raced == nil {
			w.raced = make(map[int]bool)
		}
		w.raced[p.group] = true
		return
	}
	if o.Current == nil {
		o.Current = make([]storage.Record, len(w.all[p.group]))
	}
	if l.version != nil {
		o.Current[p.swap] = storage.Record{Version: storage.Version(*l.version), State: l.state}
	}
}
