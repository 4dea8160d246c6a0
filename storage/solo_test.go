package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// lonely is a store on which each write is a round trip of its own, and to which swap is
// handed first.
type lonely struct {
	*scripted
	swap func(context.Context, []storage.Swap) ([]storage.Record, bool, error)
}

func (s *lonely) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	return s.swap(ctx, swaps)
}

func TestAConflictWithoutItsRecordsIsAnErrorToOneAlone(t *testing.T) {
	for _, current := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		for _, o := range []storage.EngineOptions{{}, {NoSharing: true}, {NoCombining: true}, {NoCombining: true, NoSharing: true}} {
			o.Budget = 20 * time.Millisecond
			s := &lonely{newScripted(), func(context.Context, []storage.Swap) ([]storage.Record, bool, error) { return current, false, nil }}
			_, err := do(storage.NewEngine(s, o), &count{limit: 3}, "k")
			require.ErrorContains(t, err, "records to 1 swaps")
			require.ErrorIs(t, err, storage.ErrNotApplied)
		}
	}
}

func TestOneAloneIsPatient(t *testing.T) {
	s, patient := &lonely{scripted: newScripted()}, false
	s.swap = func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		patient = storage.Patient(ctx)
		return s.scripted.CompareAndSwap(ctx, swaps...)
	}
	_, err := do(storage.NewEngine(s, storage.EngineOptions{}), &count{limit: 3}, "k")
	require.NoError(t, err)
	require.True(t, patient)
}

// tornKey is a gated store that writes key a in part.
type tornKey struct{ *gated }

func (s tornKey) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if swaps[0].Key == "a" {
		return nil, false, fmt.Errorf("x: %w", storage.ErrTorn)
	}
	return s.gated.CompareAndSwap(ctx, swaps...)
}

func TestATornWriteOfOthersIsNotToldToThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tornKey{newGated()}
		c := &crowd{engine: storage.NewEngine(s, storage.EngineOptions{InFlight: 2, Budget: time.Second}), limit: 10}
		c.call(background, "z")
		ctx, leave := context.WithCancel(background)
		waits := c.call(ctx, "z")
		torn := c.call(background, "a")
		require.ErrorIs(t, torn.err, storage.ErrOutcomeUnknown)
		leave()
		synctest.Wait()
		require.ErrorIs(t, waits.err, context.Canceled)
		require.NotErrorIs(t, waits.err, storage.ErrTorn)
		close(s.gate)
		c.group.Wait()
	})
}

// TestWhoLeavesAsTheTimeIsOver is told twice in the same instant, of which it hears one.
func TestWhoLeavesAsTheTimeIsOver(t *testing.T) {
	for range 200 {
		inBubble(t, storage.EngineOptions{Budget: time.Second}, func(s *gated, c *crowd) {
			c.call(background, "k")
			time.Sleep(500 * time.Millisecond)
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			leaves := c.call(ctx, "k")
			time.Sleep(400 * time.Millisecond)
			c.call(background, "k")
			s.gate <- struct{}{} // the first; who leaves flies with the last, until that is overdue
			time.Sleep(700 * time.Millisecond)
			synctest.Wait()
			require.ErrorIs(t, leaves.err, storage.ErrOutcomeUnknown)
			close(s.gate)
		})
	}
}

func TestWhatWentWrongIsToldThoughTheTimeIsOver(t *testing.T) {
	for _, o := range []storage.EngineOptions{{}, {NoCombining: true, NoSharing: true}} {
		o.Budget = 20 * time.Millisecond
		s, down := &lonely{scripted: newScripted()}, true
		s.swap = func(ctx context.Context, _ []storage.Swap) (_ []storage.Record, _ bool, err error) {
			if err = errors.New("connection refused"); !down {
				<-ctx.Done()
				err = ctx.Err()
			}
			down = false
			return nil, false, storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, err))
		}
		_, err := do(storage.NewEngine(s, o), &count{limit: 3}, "k")
		require.ErrorContains(t, err, "connection refused")
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.ErrorIs(t, err, storage.ErrNotApplied)
	}
}
