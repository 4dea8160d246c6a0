package sluicetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// Store is a store whose outages a test begins and ends. Until then it works. It is safe for concurrent use, and must not be
// copied.
//
// A limiter decides on it in Go, not by a program on the server of Base. Calls without keys or swaps never fail or hang.
//
// After Recover, the circuit breaker of a limiter can stay open until a second has passed without a call. Under
// [testing/synctest] this takes no real time.
type Store struct {
	// Base is the store that has the records. nil means a store in memory. Do not change it after the first call.
	Base storage.Store

	memory memory.Store

	mu    sync.Mutex
	fault fault
}

var _ storage.Store = (*Store)(nil)

// A fault is what happens to calls. The zero fault is none.
type fault struct {
	fail error         // what calls fail with
	hang chan struct{} // closed when calls go on
	lose bool          // lose the replies to writes
}

// Fail makes each call fail from now on, and store nothing. The error wraps err and [storage.ErrNotApplied]. A nil err means
// [storage.ErrUnavailable], after which a limiter tries again until its timeout. After an unknown error it fails at once.
func (s *Store) Fail(err error) {
	if err == nil {
		err = storage.ErrUnavailable
	}
	s.set(fault{fail: storage.NotApplied(fmt.Errorf("sluicetest: %w", err))})
}

// Hang makes each call wait from now on, until its context ends or the fault changes. If the context ends, nothing is stored, but
// the error does not say so: it wraps [storage.ErrUnavailable]. If the fault changes, the call goes on. Under testing/synctest,
// call Hang inside the bubble.
func (s *Store) Hang() { s.set(fault{hang: make(chan struct{})}) }

// LoseReplies makes each CompareAndSwap lose its reply from now on. It applies the swaps, unless there is a conflict, but fails
// with [storage.ErrUnavailable], without [storage.ErrNotApplied]. Load works.
func (s *Store) LoseReplies() { s.set(fault{lose: true}) }

// Recover makes the store work from now on. Calls that hang go on.
func (s *Store) Recover() { s.set(fault{}) }

func (s *Store) set(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault.hang != nil {
		close(s.fault.hang)
	}
	s.fault = f
}

// Load returns the records of keys.
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if len(keys) > 0 {
		if _, err := s.await(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return s.base().Load(ctx, keys...)
}

// CompareAndSwap applies all swaps or none.
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	lose := false
	if len(swaps) > 0 {
		f, err := s.await(ctx)
		if err != nil {
			return nil, false, err
		}
		lose = f.lose
	}
	current, swapped, err := s.base().CompareAndSwap(ctx, swaps...)
	if err == nil && lose {
		return nil, false, fmt.Errorf("sluicetest: the reply was lost: %w", storage.ErrUnavailable)
	}
	return current, swapped, err
}

func (s *Store) base() storage.Store {
	if s.Base != nil {
		return s.Base
	}
	return &s.memory
}

// await returns the fault of a call, after all hangs have ended.
func (s *Store) await(ctx context.Context) (fault, error) {
	if err := ctx.Err(); err != nil {
		return fault{}, storage.NotApplied(fmt.Errorf("sluicetest: %w: %w", storage.ErrUnavailable, err))
	}
	for {
		s.mu.Lock()
		f := s.fault
		s.mu.Unlock()
		if f.hang == nil {
			return f, f.fail
		}
		select {
		case <-f.hang:
		case <-ctx.Done():
			return f, fmt.Errorf("sluicetest: %w: %w", storage.ErrUnavailable, ctx.Err())
		}
	}
}
