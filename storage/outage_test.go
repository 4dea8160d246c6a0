package storage_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// away is a store that is there, or is not: then it refuses, or is silent.
type away struct {
	*scripted
	how atomic.Int32
}

const (
	there int32 = iota
	refuses
	silent
)

var errRefused = errors.New("connection refused")

func (s *away) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.scripted.Load(ctx, keys...)
}

func (s *away) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if err := s.reach(ctx); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	return s.scripted.CompareAndSwap(ctx, swaps...)
}

func (s *away) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	err := s.reach(ctx)
	for i, swaps := range groups {
		o := &outcomes[i]
		if o.Err = err; err == nil {
			o.Current, o.Swapped, o.Err = s.scripted.CompareAndSwap(ctx, swaps...)
		} else {
			o.Err = storage.NotApplied(err)
		}
	}
	return outcomes
}

func (s *away) reach(ctx context.Context) error {
	switch s.how.Load() {
	case refuses:
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, errRefused)
	case silent:
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Millisecond)
	return nil
}

// afar is an engine on a store that is away, and callers of it.
type afar struct {
	t      *testing.T
	store  *away
	engine *storage.Engine
	keys   atomic.Int64
}

const (
	budget   = time.Second
	failFast = 100 * time.Millisecond
)

// byEveryEngine has a test run with engines of every kind.
func byEveryEngine(t *testing.T, test func(a *afar)) {
	for _, o := range everyEngine() {
		o.Budget, o.FailFast = budget, failFast
		synctest.Test(t, func(t *testing.T) {
			a := &afar{t: t, store: &away{scripted: newScripted()}}
			a.engine = storage.NewEngine(a.store, o)
			test(a)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.True(t, a.engine.Idle())
		})
	}
}

// inAnOutage has it run once decisions fail fast.
func inAnOutage(t *testing.T, test func(a *afar)) {
	for _, how := range []int32{refuses, silent} {
		byEveryEngine(t, func(a *afar) {
			require.NoError(a.t, a.decide(background))
			a.store.how.Store(how)
			for range 2 { // by then a silent one has failed for long, too
				require.Equal(a.t, budget, a.fails())
			}
			test(a)
		})
	}
}

// decide makes a decision on a key of its own.
func (a *afar) decide(ctx context.Context) error {
	_, err := a.engine.Do(ctx, []string{fmt.Sprint(a.keys.Add(1))}, (&count{limit: 1}).decide)
	return err
}

// fails makes a decision that fails, and is how long that takes.
func (a *afar) fails() time.Duration {
	a.t.Helper()
	began := time.Now()
	require.ErrorIs(a.t, a.decide(background), storage.ErrUnavailable)
	return time.Since(began)
}

// start makes a decision on a goroutine, and returns when it waits.
func (a *afar) start(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- a.decide(ctx) }()
	synctest.Wait()
	return done
}

func TestInALongOutageOneDecisionTriesForAll(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		for range 3 {
			began, tries := time.Now(), a.start(background)
			for range 10 {
				time.Sleep(budget / 20)
				require.Zero(a.t, a.fails())
			}
			require.ErrorIs(a.t, <-tries, storage.ErrUnavailable)
			require.Equal(a.t, budget, time.Since(began))
		}
		tries := a.start(background)
		err := a.decide(background)
		require.ErrorIs(a.t, err, storage.ErrNotApplied)
		require.ErrorContains(a.t, err, "it has failed for ")
		if a.store.how.Load() == refuses {
			require.ErrorIs(a.t, err, errRefused)
			a.store.how.Store(there)
			require.NoError(a.t, <-tries)
			require.NoError(a.t, a.decide(background), "the store is back for all")
		}
	})
}

func TestOneThatTriesForAllAndLeavesIsFollowedByAnother(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		ctx, leave := context.WithCancel(background)
		tries := a.start(ctx)
		leave()
		require.Error(a.t, <-tries)
		require.Equal(a.t, budget, a.fails())
	})
}

// An error that is of the database, or one that concerns a single decision, is an answer.
func TestAnyAnswerEndsAnOutage(t *testing.T) {
	late := fmt.Errorf("%w: %w", storage.ErrContended, context.DeadlineExceeded)
	for _, answer := range []error{late, storage.NotApplied(errors.New("no such table"))} {
		inAnOutage(t, func(a *afar) {
			if a.store.how.Load() == silent {
				return
			}
			tries := a.start(background)
			a.store.before = func(int) error { return answer }
			a.store.how.Store(there)
			time.Sleep(budget / 10)
			a.store.how.Store(silent)
			require.Equal(a.t, budget, a.fails())
			<-tries
		})
	}
}

func TestAShortOutageIsWaitedFor(t *testing.T) {
	byEveryEngine(t, func(a *afar) {
		a.store.how.Store(refuses)
		first := a.start(background)
		time.Sleep(failFast - 1)
		second, third := a.start(background), a.start(background)
		a.store.how.Store(there)
		require.NoError(a.t, <-first)
		require.NoError(a.t, <-second)
		require.NoError(a.t, <-third)
	})
}

// Looks fail too, and what several share.
func TestAnyRoundTripTellsOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &afar{t: t, store: &away{scripted: newScripted()}}
		a.engine = storage.NewEngine(a.store, storage.EngineOptions{Budget: budget, FailFast: failFast})
		a.store.how.Store(refuses)
		for range 2 {
			_, err := a.engine.Do(background, []string{"a"}, func(time.Time, [][]byte, []storage.Change) (bool, error) { return false, nil })
			require.ErrorIs(t, err, storage.ErrUnavailable)
		}
		tries := a.start(background)
		require.Zero(t, a.fails())
		<-tries
	})
	synctest.Test(t, func(t *testing.T) {
		a := &afar{t: t, store: &away{scripted: newScripted()}}
		a.engine = storage.NewEngine(a.store, storage.EngineOptions{Budget: budget, FailFast: failFast, InFlight: 1})
		alone, one, other := a.start(background), a.start(background), a.start(background)
		a.store.how.Store(silent)
		require.NoError(t, <-alone)
		require.ErrorIs(t, <-one, storage.ErrUnavailable)
		require.ErrorIs(t, <-other, storage.ErrUnavailable)
		require.Equal(t, budget, a.fails())
		tries := a.start(background)
		require.Zero(t, a.fails())
		<-tries
	})
}

func TestAFailureOfLongAgoSaysNothing(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		a.store.how.Store(there)
		time.Sleep(2*budget + 1)
		first, second := a.start(background), a.start(background)
		require.NoError(a.t, <-first)
		require.NoError(a.t, <-second)
	})
}

// A reply that was lost is soon forgotten by a store that nobody has asked since.
func TestOneFailureIsNoOutage(t *testing.T) {
	byEveryEngine(t, func(a *afar) {
		a.store.how.Store(silent)
		require.Equal(a.t, budget, a.fails())
		a.store.how.Store(there)
		time.Sleep(failFast)
		first, second := a.start(background), a.start(background)
		require.NoError(a.t, <-first)
		require.NoError(a.t, <-second)
	})
}

func TestDenialsThatAreRememberedStandInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := &away{scripted: newScripted()}, &count{limit: 1}
		e := storage.NewEngine(s, storage.EngineOptions{FailFast: failFast})
		_, err := do(e, c, "denied")
		require.NoError(t, err)
		s.how.Store(refuses)
		for i := range 2 {
			_, err = do(e, c, fmt.Sprint(i))
			require.ErrorIs(t, err, storage.ErrUnavailable)
		}
		how, err := do(e, c, "denied")
		require.NoError(t, err)
		require.True(t, how.Memory)
		require.False(t, c.allowed)
	})
}

// heedless is a store that goes by the deadlines of patient contexts alone.
type heedless struct{ *away }

func (s heedless) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	end, _ := ctx.Deadline()
	patient, cancel := context.WithDeadline(background, end)
	defer cancel()
	outcomes := s.away.CompareAndSwapBatch(patient, groups...)
	for i := range outcomes {
		if outcomes[i].Err != nil {
			<-ctx.Done()
			outcomes[i].Err = storage.NotApplied(ctx.Err())
		}
	}
	return outcomes
}

func (s heedless) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func TestATripWhoseCallerLeavesIsNoAnswerUnlessThereIsOne(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		if a.store.how.Load() == refuses {
			return
		}
		a.engine = storage.NewEngine(heedless{a.store}, storage.EngineOptions{Budget: budget, FailFast: failFast})
		for range 2 {
			a.fails()
		}
		ctx, leave := context.WithCancel(background)
		tries := a.start(ctx)
		leave()
		require.ErrorIs(a.t, <-tries, context.Canceled)
		first := a.start(background)
		require.Zero(a.t, a.fails(), "nothing has come of it")
		require.Error(a.t, <-first)

		a.store.how.Store(there)
		ctx, leave = context.WithCancel(background)
		tries = a.start(ctx)
		leave()
		require.NoError(a.t, <-tries)
		first = a.start(background)
		require.NoError(a.t, a.decide(background))
		require.NoError(a.t, <-first)
	})
}

// One that tries for all tells of it when its budget is over.
func TestAnOutageGoesOnWhereItIsTriedNowAndThen(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		for range 3 {
			time.Sleep(3 * budget / 2)
			tries := a.start(background)
			require.Zero(a.t, a.fails())
			require.Error(a.t, <-tries)
		}
	})
}

func TestCallersInAHurryDoNotEndAnOutage(t *testing.T) {
	inAnOutage(t, func(a *afar) {
		for range 10 {
			ctx, cancel := context.WithTimeout(background, budget/2)
			tries := a.start(ctx)
			require.Zero(a.t, a.fails())
			require.Error(a.t, <-tries)
			cancel()
		}
	})
}

// Callers in a hurry are no reason to refuse those who are not.
func TestATripThatItsCallerCutsShortSaysNothing(t *testing.T) {
	byEveryEngine(t, func(a *afar) {
		a.store.how.Store(silent)
		for range 20 {
			ctx, cancel := context.WithTimeout(background, failFast/5)
			require.Error(a.t, a.decide(ctx))
			cancel()
		}
		first := a.start(background)
		require.Equal(a.t, budget, a.fails())
		require.Error(a.t, <-first)
	})
}
