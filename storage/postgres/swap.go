package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// CompareAndSwap implements [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil || len(swaps) == 0 {
		return nil, err == nil, err
	}
	sorted := order(keys)
	// The statement fails if another transaction creates one of several keys.
	mayFail := len(swaps) > 1 && slices.ContainsFunc(swaps, func(s storage.Swap) bool { return s.Old == 0 })
	var rows []row
	err = s.send(ctx, 0, mayFail, func(db DB, lockTimeout time.Duration) (err error) {
		rows, err = collectOn[row](ctx, s, db, s.sql.swap, swapArgs(swaps, sorted, lockTimeout)...)
		return err
	})
	switch {
	case errors.Is(err, errCreated), len(rows) > 0 && rows[0].Created:
		if current, err = s.Load(ctx, keys...); err != nil {
			return nil, false, storage.NotApplied(err)
		}
		return current, false, nil
	case err != nil || len(rows) == 0:
		return nil, err == nil, err
	}
	current = make([]storage.Record, len(swaps))
	for i := range rows {
		current[sorted[rows[i].Place-1]] = rows[i].record()
	}
	return current, false, nil
}

// swapArgs returns the arguments of the statement. The first six are columns, in the order sorted: key,
// old version, new version, state, TTL in microseconds (0: the record never expires; -1: it is deleted,
// which is written as expired) and Until in microseconds since 1970. Then follow the lock timeout in
// milliseconds (0: none), and the number of keys.
func swapArgs(swaps []storage.Swap, sorted []int, lockTimeout time.Duration) []any {
	n := len(swaps)
	olds, news, ttls, untils := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, at := range sorted {
		s := &swaps[at]
		keys[i], olds[i], news[i], states[i] = []byte(s.Key), int64(s.Old), int64(s.New.Version), s.New.State
		if states[i] == nil { // nil would be NULL
			states[i] = []byte{}
		}
		ttls[i], untils[i] = expiry(s)
	}
	return []any{keys, olds, news, states, ttls, untils, int32(lockTimeout.Milliseconds()), int32(n)}
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
