package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// CompareAndSwap implements [storage.Store]. It is one statement.
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := driver.Check(swaps); err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if len(swaps) == 0 {
		return nil, true, nil
	}
	w := newWrite(swaps)
	switch err := s.swap(ctx, w); {
	case errors.Is(err, errRaced), err == nil && w.raced:
		return s.lost(ctx, swaps)
	case err != nil:
		return nil, false, err
	}
	return w.current, w.current == nil, nil
}

// lost answers swaps of which a key was created by another at the same moment: that is a
// conflict, with what is stored by now.
func (s *Store) lost(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
	keys := make([]string, len(swaps))
	for i := range swaps {
		keys[i] = swaps[i].Key
	}
	current, err := s.Load(ctx, keys...)
	if err != nil {
		return nil, false, storage.NotApplied(err)
	}
	return current, false, nil
}

// swap sends the statement; in a transaction of the caller behind a savepoint, if it may fail.
func (s *Store) swap(ctx context.Context, w *write) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inside := db.(pgx.Tx)
	switch {
	case !inside:
		return s.withinDeadline(ctx, 0, func(lockTimeout time.Duration) error { return s.exec(ctx, db, w, lockTimeout) })
	case w.undoes():
		return s.behindSavepoint(ctx, tx, func(savepoint pgx.Tx) error { return s.exec(ctx, savepoint, w, 0) })
	}
	return s.exec(ctx, tx, w, 0)
}

func (s *Store) behindSavepoint(ctx context.Context, tx pgx.Tx, send func(savepoint pgx.Tx) error) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return s.failed(tx, err)
	}
	if err := send(savepoint); err != nil {
		return errors.Join(err, savepoint.Rollback(ctx))
	}
	if err := savepoint.Commit(ctx); err != nil {
		return s.failed(tx, err)
	}
	return nil
}

// exec sends the statement and notes the answer. It waits for a lock as long as
// lockTimeout at most, if that is not 0; so do all that follow in the transaction, which
// therefore must not be the caller's.
func (s *Store) exec(ctx context.Context, db DB, w *write, lockTimeout time.Duration) error {
	losers, err := collectOn(ctx, s, db, readLoser, s.sql.swap, w.args(lockTimeout)...)
	if err != nil {
		return err
	}
	for _, l := range losers {
		w.settle(l)
	}
	return nil
}

// write is what the swap statement takes and what it returns.
type write struct {
	swaps   []storage.Swap
	order   []int // the indexes of swaps, in the order of their keys
	raced   bool  // a key was created by another meanwhile; nothing was done
	current []storage.Record
}

func newWrite(swaps []storage.Swap) *write {
	w := &write{swaps: swaps, order: make([]int, len(swaps))}
	for i := range w.order {
		w.order[i] = i
	}
	slices.SortFunc(w.order, func(a, b int) int { return cmp.Compare(swaps[a].Key, swaps[b].Key) })
	return w
}

// undoes reports whether the statement fails if a key is created by another
// meanwhile.
func (w *write) undoes() bool {
	return len(w.swaps) > 1 && slices.ContainsFunc(w.swaps, func(s storage.Swap) bool { return s.Old == 0 })
}

// args returns the arguments of the statement. The columns come first: key, old version, new
// version, state, TTL in microseconds (0: for ever; -1: written as expired, which is
// deleted) and Until in microseconds since 1970. Then comes for how many milliseconds to
// wait for a lock, if not 0; and 1 if there is one key.
func (w *write) args(lockTimeout time.Duration) []any {
	n, alone := len(w.order), int32(0)
	olds, news, ttls, untils := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, at := range w.order {
		s := &w.swaps[at]
		keys[i], olds[i], news[i], states[i] = []byte(s.Key), int64(s.Old), int64(s.New.Version), s.New.State
		if states[i] == nil { // which would be NULL
			states[i] = []byte{}
		}
		ttls[i], untils[i] = expiry(s)
	}
	if n == 1 {
		alone = 1
	}
	return []any{keys, olds, news, states, ttls, untils, int32(lockTimeout.Milliseconds()), alone}
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
	if l.raced {
		w.raced = true
		return
	}
	if w.current == nil {
		w.current = make([]storage.Record, len(w.swaps))
	}
	if l.version != nil {
		w.current[w.order[l.place-1]] = storage.Record{Version: storage.Version(*l.version), State: l.state}
	}
}
