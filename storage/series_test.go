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

// serial counts its series that go on, and what was asked in one.
type serial struct {
	*gated
	series, calls atomic.Int64
	panics        any // what the beginning of a series and its end do
}

func (s *serial) Series(ctx context.Context) (context.Context, func()) {
	if s.panics == "begin" {
		panic(s.panics)
	}
	s.series.Add(1)
	return context.WithValue(ctx, s, true), func() {
		s.series.Add(-1)
		if s.panics == "end" {
			panic(s.panics)
		}
	}
}

func (s *serial) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if ctx.Value(s) == true {
		s.calls.Add(1)
	}
	return s.gated.CompareAndSwap(ctx, swaps...)
}

// Flights that follow each other at once are a series, which ends with them. A store
// that panics there does without.
func TestFlightsAreASeries(t *testing.T) {
	for _, panics := range []any{nil, "begin", "end"} {
		inBubble(t, storage.EngineOptions{}, func(g *gated, c *crowd) {
			s := &serial{gated: g, panics: panics}
			c.engine = storage.NewEngine(s, storage.EngineOptions{})
			c.call(background, "k") // flies by itself
			const trips = 4
			for range trips {
				c.call(background, "k")
				c.call(background, "k")
				s.gate <- struct{}{}
				synctest.Wait()
				require.Equal(t, panics != "begin", s.series.Load() == 1)
			}
			close(s.gate)
			c.group.Wait()
			synctest.Wait()
			require.Zero(t, s.series.Load())
			require.Equal(t, panics != "begin", s.calls.Load() == trips)
			require.True(t, c.engine.Idle())
		})
	}
}

// tardy refuses every write but the first, when the time is over.
type tardy struct{ *gated }

func (s tardy) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	if len(s.trips) == 0 {
		return s.gated.CompareAndSwapBatch(ctx, groups...)
	}
	time.Sleep(storage.DefaultBudget)
	return []storage.Outcome{{Current: []storage.Record{{Version: 7}}}}
}

func (s tardy) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

// Whether a call got its turn is told by what happened, not by how often it decided.
func TestACommitThatRanOutOfTime(t *testing.T) {
	for _, commits := range []bool{false, true} {
		for _, inTime := range []bool{false, true} {
			inBubble(t, storage.EngineOptions{}, func(g *gated, c *crowd) {
				c.engine = storage.NewEngine(tardy{g}, storage.EngineOptions{})
				do := c.engine.Do
				if commits {
					do = c.engine.Commit
				}
				c.call(background, "k")
				k := &caller{count: count{limit: 1000}}
				ctx, cancel := context.WithTimeout(background, storage.DefaultBudget/2)
				defer cancel()
				if inTime {
					ctx = background // and ends with the budget
				}
				c.start(func() { k.how, k.err = do(ctx, []string{"k"}, k.decide) })
				if inTime {
					close(g.gate)
				}
				c.group.Wait()
				require.ErrorIs(t, k.err, context.DeadlineExceeded)
				require.ErrorIs(t, k.err, storage.ErrNotApplied)
				require.Equal(t, inTime, errors.Is(k.err, storage.ErrContended), k.err)
			})
		}
	}
}

// Nobody contended where a fault that stays broke up a crowd.
func TestWhoLeavesAfterACrowdWasBrokenUp(t *testing.T) {
	fault := storage.NotApplied(errors.New("no such table"))
	inBubble(t, storage.EngineOptions{}, func(g *gated, c *crowd) {
		tries := 0
		g.refuse = func([]string) error {
			if tries++; tries > 1 {
				return fault
			}
			return nil
		}
		ctx, cancel := context.WithCancel(background)
		c.call(background, "k") // flies by itself
		c.call(background, "k")
		k := c.call(ctx, "k")
		g.gate <- struct{}{}
		synctest.Wait() // the other two are on their way
		g.gate <- struct{}{}
		synctest.Wait() // one of them is again, by itself
		cancel()
		synctest.Wait()
		close(g.gate)
		c.group.Wait()
		require.ErrorIs(t, k.err, context.Canceled)
		require.ErrorIs(t, k.err, storage.ErrNotApplied)
		require.ErrorContains(t, k.err, "no such table")
		require.NotErrorIs(t, k.err, storage.ErrContended)
	})
}
