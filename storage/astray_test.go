package storage_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// astray is a store that, once the gate is open, answers something else than what it
// was asked.
type astray struct {
	*gated
	loads func([]storage.Record) []storage.Record
	swaps func([]storage.Outcome) []storage.Outcome
}

func (s *astray) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	records, err := s.gated.Load(ctx, keys...)
	if s.loads != nil {
		records = s.loads(records)
	}
	return records, err
}

func (s *astray) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func (s *astray) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := s.gated.CompareAndSwapBatch(ctx, groups...)
	if s.swaps != nil && len(groups) > 1 {
		return s.swaps(outcomes)
	}
	return outcomes
}

// among starts one caller who holds up the others, and then those of the keys.
func among(t *testing.T, s *astray, keys ...string) (callers []*caller) {
	synctest.Test(t, func(t *testing.T) {
		s.gated = newGated()
		c := &crowd{engine: storage.NewEngine(s, storage.EngineOptions{InFlight: 1}), limit: 1000}
		first := c.call(background, "first")
		for _, key := range keys {
			callers = append(callers, c.call(background, key))
		}
		close(s.gate)
		c.group.Wait()
		require.NoError(t, first.err)
		synctest.Wait()
		require.True(t, c.engine.Idle())
	})
	return callers
}

func TestFewerOutcomesThanGroupsAllowNobody(t *testing.T) {
	for _, short := range []func([]storage.Outcome) []storage.Outcome{
		func([]storage.Outcome) []storage.Outcome { return nil },
		func(o []storage.Outcome) []storage.Outcome { return o[:1] },
		func(o []storage.Outcome) []storage.Outcome { return append(o, o...) },
	} {
		store := &astray{swaps: short}
		for _, k := range among(t, store, "a", "b", "c") {
			// A group alone is answered as it should be: its outcome was looked for.
			require.NoError(t, k.err)
			require.True(t, k.allowed)
		}
		for _, key := range []string{"a", "b", "c"} {
			require.Equal(t, "x", string(store.records[key].State), "allowed once, and stored once")
		}
	}
}

func TestAConflictWithoutItsRecordsIsAnError(t *testing.T) {
	for _, current := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		store := &astray{}
		store.swaps = func(o []storage.Outcome) []storage.Outcome {
			for i := range o {
				o[i] = storage.Outcome{Current: current}
			}
			return o
		}
		for _, k := range among(t, store, "a", "b") {
			require.ErrorContains(t, k.err, "records to 1 swaps")
			require.ErrorIs(t, k.err, storage.ErrNotApplied)
		}
	}
}

func TestALookWithoutItsRecordsIsAnError(t *testing.T) {
	look := func(time.Time, [][]byte, []storage.Change) (bool, error) { return false, nil }
	for _, records := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		s := &astray{gated: newGated(), loads: func([]storage.Record) []storage.Record { return records }}
		close(s.gate)
		_, err := storage.NewEngine(s, storage.EngineOptions{}).Do(background, []string{"k"}, look)
		require.ErrorContains(t, err, "records to 1 keys")
		require.ErrorIs(t, err, storage.ErrNotApplied)
	}
}

// A store that panics on a goroutine of the engine must not end the program.
func TestAPanicOfTheStoreIsThatOfItsCallers(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		var panics atomic.Int64
		c.call(background, "first")
		for _, key := range []string{"k", "k", "other"} {
			c.start(func() {
				defer func() {
					require.Equal(t, "driver", recover())
					panics.Add(1)
				}()
				_, _ = c.engine.Do(background, []string{key}, (&count{limit: 9}).decide)
			})
		}
		s.gate <- struct{}{}
		synctest.Wait()
		s.refuse = func([]string) error { panic("driver") }
		close(s.gate)
		c.group.Wait()
		require.EqualValues(t, 3, panics.Load())

		s.refuse = nil
		after := c.call(background, "k")
		c.group.Wait()
		require.NoError(t, after.err)
	})
}

// mute is a store that does nothing until the time is over.
type mute struct{ storage.Store }

func (mute) CompareAndSwap(ctx context.Context, _ ...storage.Swap) ([]storage.Record, bool, error) {
	<-ctx.Done()
	return nil, false, storage.NotApplied(ctx.Err())
}

func TestASpentBudgetIsAnOutage(t *testing.T) {
	for _, o := range []storage.EngineOptions{{Budget: time.Second}, {Budget: time.Second, NoCombining: true}} {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{engine: storage.NewEngine(mute{}, o), limit: 9}
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			defer cancel()
			first, second, hasty := c.call(background, "k"), c.call(background, "k"), c.call(ctx, "k")
			c.group.Wait()
			for _, k := range []*caller{first, second} {
				require.ErrorIs(t, k.err, storage.ErrUnavailable)
				require.ErrorIs(t, k.err, storage.ErrNotApplied)
			}
			require.ErrorIs(t, hasty.err, context.DeadlineExceeded)
			require.NotErrorIs(t, hasty.err, storage.ErrUnavailable, "that was the caller's time")
		})
	}
}

// tearing loses the first swap, and applies the second in part.
type tearing struct {
	*scripted
	swaps int
}

func (s *tearing) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	switch s.swaps++; s.swaps {
	case 1:
		return nil, false, errLost
	case 2:
		_, _, err := s.scripted.CompareAndSwap(ctx, swaps[0])
		return nil, false, errors.Join(storage.ErrTorn, err)
	}
	return s.scripted.CompareAndSwap(ctx, swaps...)
}

// A write that is torn while it is looked for is not found by its part.
func TestAWriteTornLaterIsUnknown(t *testing.T) {
	for _, o := range []storage.EngineOptions{{}, {NoCombining: true}} {
		s := &tearing{scripted: newScripted()}
		_, err := do(storage.NewEngine(s, o), &count{limit: 3}, "a", "b")
		require.ErrorIs(t, err, storage.ErrOutcomeUnknown)
		require.Len(t, s.records, 1)
	}
}

// What decide says of time is its own.
func TestADeadlineOfDecideIsNoOutage(t *testing.T) {
	e := storage.NewEngine(newScripted(), storage.EngineOptions{})
	_, err := e.Do(background, []string{"k"}, func(time.Time, [][]byte, []storage.Change) (bool, error) {
		return true, context.DeadlineExceeded
	})
	require.Equal(t, context.DeadlineExceeded, err)
}
