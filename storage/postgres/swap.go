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

// CompareAndSwap implements [storage.Store]. It sends one statement.
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
	w := newSwapRun(swaps)
	err = s.send(ctx, 0, w.mayFail(), func(db DB, lockTimeout time.Duration) error {
		return s.execSwap(ctx, db, w, lockTimeout)
	})
	switch {
	case errors.Is(err, errCreated), err == nil && w.created:
		return s.loadConflict(ctx, swaps)
	case err != nil:
		return nil, false, err
	}
	return w.current, w.current == nil, nil
}

// loadConflict returns the stored records after another transaction has created one of the keys, which
// is a conflict.
func (s *Store) loadConflict(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
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

// send calls exec with a connection and a lock timeout. In a transaction of the caller it uses a
// savepoint if the statement may fail, and no lock timeout.
func (s *Store) send(ctx context.Context, lockTimeout time.Duration, mayFail bool, exec func(DB, time.Duration) error) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inTransaction := db.(pgx.Tx)
	switch {
	case !inTransaction:
		return s.withinDeadline(ctx, lockTimeout, func(lockTimeout time.Duration) error { return exec(db, lockTimeout) })
	case mayFail:
		return s.withSavepoint(ctx, tx, func(savepoint pgx.Tx) error { return exec(savepoint, 0) })
	}
	return exec(tx, 0)
}

// withSavepoint calls send with a savepoint, and rolls back to it if send fails.
func (s *Store) withSavepoint(ctx context.Context, tx pgx.Tx, send func(savepoint pgx.Tx) error) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return s.failure(tx, err)
	}
	if err := send(savepoint); err != nil {
		return errors.Join(err, savepoint.Rollback(ctx))
	}
	if err := savepoint.Commit(ctx); err != nil {
		return s.failure(tx, err)
	}
	return nil
}

// execSwap sends the statement and reads its reply. A lockTimeout other than 0 applies to the whole
// transaction, so it must be 0 in a transaction of the caller.
func (s *Store) execSwap(ctx context.Context, db DB, w *swapRun, lockTimeout time.Duration) error {
	rows, err := collectOn(ctx, s, db, readConflict, s.sql.swap, w.args(lockTimeout)...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		w.apply(row)
	}
	return nil
}

// swapRun is a swap and its result.
type swapRun struct {
	swaps   []storage.Swap
	order   []int            // the indexes of swaps, sorted by key
	created bool             // another transaction created a key; nothing was written
	current []storage.Record // after a conflict
}

func newSwapRun(swaps []storage.Swap) *swapRun {
	w := &swapRun{swaps: swaps, order: make([]int, len(swaps))}
	for i := range w.order {
		w.order[i] = i
	}
	slices.SortFunc(w.order, func(a, b int) int { return cmp.Compare(swaps[a].Key, swaps[b].Key) })
	return w
}

// mayFail reports whether the statement fails if another transaction creates one of the keys.
func (w *swapRun) mayFail() bool {
	return len(w.swaps) > 1 && slices.ContainsFunc(w.swaps, func(s storage.Swap) bool { return s.Old == 0 })
}

// args returns the arguments of the statement. The first six are columns: key, old version, new
// version, state, TTL in microseconds (0: the record never expires; -1: it is deleted, which is
// written as expired) and Until in microseconds since 1970. Then follow the lock timeout in
// milliseconds (0: none), and 1 if there is one key.
func (w *swapRun) args(lockTimeout time.Duration) []any {
	n, single := len(w.order), int32(0)
	olds, news, ttls, untils := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, at := range w.order {
		s := &w.swaps[at]
		keys[i], olds[i], news[i], states[i] = []byte(s.Key), int64(s.Old), int64(s.New.Version), s.New.State
		if states[i] == nil { // nil would be NULL
			states[i] = []byte{}
		}
		ttls[i], untils[i] = expiry(s)
	}
	if n == 1 {
		single = 1
	}
	return []any{keys, olds, news, states, ttls, untils, int32(lockTimeout.Milliseconds()), single}
}

// expiry returns the TTL and Until arguments of a swap.
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

// apply copies a row of the reply into the result.
func (w *swapRun) apply(row conflictRow) {
	if row.created {
		w.created = true
		return
	}
	if w.current == nil {
		w.current = make([]storage.Record, len(w.swaps))
	}
	if row.version != nil {
		w.current[w.order[row.place-1]] = storage.Record{Version: storage.Version(*row.version), State: row.state}
	}
}
