package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

// attempts is how often a batch is tried when a key was created at the same
// moment: the next time that is a conflict of its group alone.
const attempts = 3

// commit tries all groups together, and answers them.
func (s *Store) commit(ctx context.Context, w *write) {
	for range attempts {
		err := s.write(ctx, w)
		if err == nil {
			w = w.again()
		}
		switch several := w.groups > 1; {
		case err == nil && w.groups == 0:
			return
		case (err == nil || errors.Is(err, errRaced)) && several:
			continue
		case err == nil || errors.Is(err, errRaced):
			s.lost(ctx, w)
			return
		case errors.Is(err, storage.ErrContended) && several:
			s.apart(ctx, w, hasty)
			return
		}
		w.fail(err)
		return
	}
	s.apart(ctx, w, 0)
}

// apart tries each group for itself, because one was in the way of all.
func (s *Store) apart(ctx context.Context, w *write, patience time.Duration) {
	for _, g := range w.numbers() {
		alone := newWrite(w.all[g:g+1], w.outcomes[g:g+1])
		alone.patience = patience
		s.commit(ctx, alone)
	}
}

// lost answers a group whose key was created by another at the same moment: a
// conflict, with what is there by now.
func (s *Store) lost(ctx context.Context, w *write) {
	g := w.places[0].group
	keys := make([]string, len(w.all[g]))
	for i := range keys {
		keys[i] = w.all[g][i].Key
	}
	current, err := s.Load(ctx, keys...)
	if err != nil {
		err = storage.NotApplied(err)
	}
	w.outcomes[g] = storage.Outcome{Current: current, Err: err}
}

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

// newWrite is of the groups that can be written.
func newWrite(groups [][]storage.Swap, outcomes []storage.Outcome) *write {
	w := &write{all: groups, outcomes: outcomes}
	for g, group := range groups {
		if outcomes[g].Err != nil {
			continue
		}
		outcomes[g].Swapped = len(group) == 0
		w.add(g)
	}
	slices.SortFunc(w.places, func(a, b place) int {
		return cmp.Compare(w.swap(a).Key, w.swap(b).Key)
	})
	if w.groups > 1 {
		w.patience = shared
	}
	return w
}

func (w *write) add(group int) {
	for i := range w.all[group] {
		w.places = append(w.places, place{group, i})
	}
	if len(w.all[group]) > 0 {
		w.groups++
	}
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

// each reports whether every group is of one key.
func (w *write) each() bool { return w.groups == len(w.places) }

// undoes reports whether the statement fails if a key is created by another
// meanwhile.
func (w *write) undoes() bool {
	return !w.each() && slices.ContainsFunc(w.places, func(p place) bool { return w.swap(p).Old == 0 })
}

// args are the columns: group, key, old version, new version, state, TTL in
// microseconds (0: for ever; -1: written as expired, which is deleted); for how
// many milliseconds to wait for a lock, if not 0; and 1 if every group is of one
// key.
func (w *write) args(patience time.Duration) []any {
	n := len(w.places)
	groups, olds, news, ttls := make([]int32, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, p := range w.places {
		s := w.swap(p)
		groups[i], keys[i], olds[i] = int32(p.group), []byte(s.Key), int64(s.Old)
		news[i], states[i] = int64(s.New.Version), append([]byte{}, s.New.State...)
		switch {
		case s.New.Version == 0:
			ttls[i] = -1
		case s.TTL > 0:
			ttls[i] = int64((s.TTL-1)/time.Microsecond) + 1
		}
	}
	each := int32(0)
	if w.each() {
		each = 1
	}
	return []any{groups, keys, olds, news, states, ttls, int32(patience.Milliseconds()), each}
}

// write sends the statement; in a transaction of the caller behind a savepoint,
// if it may fail.
func (s *Store) write(ctx context.Context, w *write) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inside := db.(pgx.Tx)
	switch {
	case !inside:
		return s.alone(ctx, db, w)
	case !w.undoes():
		return s.exec(ctx, db, w, 0)
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return s.failed(db, err)
	}
	if err := s.exec(ctx, savepoint, w, 0); err != nil {
		return errors.Join(err, savepoint.Rollback(ctx))
	}
	if err := savepoint.Commit(ctx); err != nil {
		return s.failed(db, err)
	}
	return nil
}

// exec sends the statement; patience is for how long it may wait for a lock, if
// not 0: until the end of the transaction.
func (s *Store) exec(ctx context.Context, db DB, w *write, patience time.Duration) error {
	losers, err := collectOn(ctx, s, db, readLoser, s.sql.swap, w.args(patience)...)
	if err != nil {
		return err
	}
	for _, p := range w.places {
		w.outcomes[p.group].Swapped = true
	}
	for _, l := range losers {
		w.settle(l)
	}
	return nil
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
