package storage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// scripted is a store of its own time whose every round trip can be made to
// fail.
type scripted struct {
	mu      sync.Mutex
	records map[string]storage.Record
	trips   []string // "load" or "swap", in their order

	// before runs ahead of each round trip, after behind it; an error they
	// return is the reply. n counts the trips from 1.
	before, after func(n int) error
}

func newScripted() *scripted { return &scripted{records: make(map[string]storage.Record)} }

func (s *scripted) Load(ctx context.Context, keys ...string) (found []storage.Record, err error) {
	err = s.trip(ctx, "load", func() {
		for _, key := range keys {
			found = append(found, s.records[key])
		}
	})
	return found, err
}

func (s *scripted) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	err = s.trip(ctx, "swap", func() {
		swapped = true
		for _, w := range swaps {
			current = append(current, s.records[w.Key])
			swapped = swapped && s.records[w.Key].Version == w.Old
		}
		if !swapped {
			return
		}
		for _, w := range swaps {
			if s.records[w.Key] = w.New; w.New.Version == 0 {
				delete(s.records, w.Key)
			}
		}
		current = nil
	})
	return current, swapped, err
}

func (s *scripted) trip(ctx context.Context, what string, do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	s.trips = append(s.trips, what)
	if s.before != nil {
		if err := s.before(len(s.trips)); err != nil {
			return err
		}
	}
	do()
	if s.after != nil {
		return s.after(len(s.trips))
	}
	return nil
}

func (s *scripted) put(key, state string) {
	s.records[key] = storage.Record{Version: storage.NewVersion(), State: []byte(state)}
}

// count is a decision that counts up to a limit in the length of the state, and
// denies beyond it. It notes what it last decided.
type count struct {
	limit   int
	allowed bool
	times   []time.Time
}

func (c *count) decide(now time.Time, found [][]byte, next []storage.Change) (lasting bool, err error) {
	c.times = append(c.times, now)
	c.allowed = true
	for i := range found {
		if len(found[i]) >= c.limit {
			c.allowed = false
		}
		next[i] = storage.Change{Verb: storage.Put, State: append([]byte("x"), found[i]...)}
	}
	if !c.allowed {
		clear(next)
	}
	return !c.allowed, nil
}

var errLost = errors.New("connection reset")

func do(e *storage.Engine, c *count, keys ...string) (storage.How, error) {
	return e.Do(context.Background(), keys, c.decide)
}

func TestOneRoundTripPerDecisionAndNoneForADenial(t *testing.T) {
	s, c := newScripted(), &count{limit: 3}
	e := storage.NewEngine(s, storage.EngineOptions{})
	for range 3 {
		how, err := do(e, c, "k")
		require.NoError(t, err)
		require.True(t, c.allowed)
		require.Equal(t, storage.How{Attempts: 1}, how)
	}
	require.Equal(t, []string{"swap", "swap", "swap"}, s.trips)
	how, err := do(e, c, "k")
	require.NoError(t, err)
	require.False(t, c.allowed)
	require.Equal(t, storage.How{Attempts: 1, Memory: true}, how)
	require.Len(t, s.trips, 3)
}

func TestConflictIsDecidedAgainOnWhatIsStored(t *testing.T) {
	s, c := newScripted(), &count{limit: 3}
	s.put("k", "xx")
	e := storage.NewEngine(s, storage.EngineOptions{})
	how, err := do(e, c, "k")
	require.NoError(t, err)
	require.Equal(t, 2, how.Attempts)
	require.Equal(t, []string{"swap", "swap"}, s.trips)
	require.Equal(t, "xxx", string(s.records["k"].State))

	s.put("k", "xxx")
	s.put("j", "xxx")
	e = storage.NewEngine(s, storage.EngineOptions{})
	how, err = do(e, c, "k", "j")
	require.NoError(t, err)
	require.False(t, c.allowed)
	require.False(t, how.Memory, "the conflict was a look at the store")
}

func TestAllKeysOrNone(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	e := storage.NewEngine(s, storage.EngineOptions{})
	_, err := do(e, c, "a")
	require.NoError(t, err)
	_, err = do(e, c, "a", "b")
	require.NoError(t, err)
	require.False(t, c.allowed)
	require.NotContains(t, s.records, "b")
}

func TestEveryAttemptReadsTheClock(t *testing.T) {
	s, c := newScripted(), &count{limit: 3}
	s.put("k", "x")
	now := time.Unix(100, 0)
	e := storage.NewEngine(s, storage.EngineOptions{Clock: func() time.Time { now = now.Add(1); return now }})
	_, err := do(e, c, "k")
	require.NoError(t, err)
	require.Len(t, c.times, 2)
	require.Greater(t, c.times[1], c.times[0])
}

func TestALookIsNotAnsweredFromMemory(t *testing.T) {
	s, c := newScripted(), &count{limit: 3}
	e := storage.NewEngine(s, storage.EngineOptions{})
	_, err := do(e, c, "k")
	require.NoError(t, err)
	s.put("k", "yy")
	var seen string
	how, err := e.Do(context.Background(), []string{"k"}, func(_ time.Time, found [][]byte, _ []storage.Change) (bool, error) {
		seen = string(found[0])
		return false, nil
	})
	require.NoError(t, err)
	require.Equal(t, "yy", seen)
	require.False(t, how.Memory)
	require.Equal(t, []string{"swap", "load"}, s.trips)
}

func TestDenialIsLookedUpAgainAfterMaxAge(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	now := time.Unix(100, 0)
	e := storage.NewEngine(s, storage.EngineOptions{MaxAge: time.Second, Clock: func() time.Time { return now }})
	_, err := do(e, c, "k")
	require.NoError(t, err)
	delete(s.records, "k") // another process resets the key

	now = now.Add(time.Second)
	how, err := do(e, c, "k")
	require.NoError(t, err)
	require.False(t, c.allowed)
	require.True(t, how.Memory)

	now = now.Add(1)
	_, err = do(e, c, "k")
	require.NoError(t, err)
	require.True(t, c.allowed)
}

func TestNothingIsRememberedWhenToldSo(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	e := storage.NewEngine(s, storage.EngineOptions{Remember: -1})
	for range 3 {
		how, err := do(e, c, "k")
		require.NoError(t, err)
		require.False(t, how.Memory)
	}
	require.False(t, c.allowed)
}

func TestErrorOfTheDecisionIsReturnedAsItIs(t *testing.T) {
	s := newScripted()
	e := storage.NewEngine(s, storage.EngineOptions{})
	_, err := e.Do(context.Background(), []string{"k"}, func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
		next[0].Verb = storage.Put
		return true, errLost
	})
	require.Equal(t, errLost, err)
	require.Empty(t, s.trips)
}

func TestContentionEndsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(), &count{limit: 1000}
		s.before = func(int) error { s.put("k", "x"); return nil } // somebody is always faster
		e := storage.NewEngine(s, storage.EngineOptions{Budget: 2 * time.Second})
		began := time.Now()
		how, err := do(e, c, "k")
		require.ErrorIs(t, err, storage.ErrContended)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Greater(t, how.Attempts, 40)
		require.Less(t, how.Attempts, 20_000, "eight and a pause of a millisecond")
	})
}

func TestOutageEndsWithTheBudgetAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(), &count{limit: 1000}
		down := true
		s.before = func(int) error {
			if down {
				return storage.NotApplied(storage.ErrUnavailable)
			}
			return nil
		}
		e := storage.NewEngine(s, storage.EngineOptions{Budget: time.Second})
		began := time.Now()
		_, err := do(e, c, "k")
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.Equal(t, time.Second, time.Since(began))

		down = false
		_, err = do(e, c, "k")
		require.NoError(t, err)
		require.Equal(t, "x", string(s.records["k"].State))
	})
}

func TestFaultThatStaysIsReturnedAtOnce(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	broken := storage.NotApplied(errors.New("no such table"))
	s.before = func(int) error { return broken }
	_, err := do(storage.NewEngine(s, storage.EngineOptions{}), c, "k")
	require.Equal(t, broken, err)
	require.Len(t, s.trips, 1)
}

func TestLostReplies(t *testing.T) {
	lose := func(at int) func(int) error {
		return func(n int) error {
			if n == at {
				return errLost
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		script func(s *scripted)
		err    error
		state  string // afterwards
	}{
		"applied":     {func(s *scripted) { s.after = lose(1) }, nil, "x"},
		"not applied": {func(s *scripted) { s.before = lose(1) }, nil, "x"},
		"applied, twice lost": {func(s *scripted) {
			s.after = func(n int) error { return errors.Join(lose(1)(n), lose(2)(n)) }
		}, nil, "x"},
		"then overwritten": {func(s *scripted) {
			s.after = lose(1)
			s.before = func(n int) error {
				if n == 2 {
					s.put("k", "other")
				}
				return nil
			}
		}, storage.ErrOutcomeUnknown, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, count := newScripted(), &count{limit: 10}
				c.script(s)
				how, err := do(storage.NewEngine(s, storage.EngineOptions{}), count, "k")
				require.ErrorIs(t, err, c.err)
				require.Equal(t, 1, how.Attempts, "what may have been applied is not decided again")
				require.Equal(t, c.state, string(s.records["k"].State))
				if c.err != nil {
					require.NotErrorIs(t, err, storage.ErrNotApplied)
				}
			})
		})
	}
}

func TestReplyLostForGoodIsUnknownWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(), &count{limit: 10}
		s.after = func(int) error { return errLost }
		began := time.Now()
		_, err := do(storage.NewEngine(s, storage.EngineOptions{Budget: time.Second}), c, "k")
		require.ErrorIs(t, err, storage.ErrOutcomeUnknown)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, "x", string(s.records["k"].State), "applied once, however often it was sent")
	})
}

func TestContextThatHasEndedSendsNothing(t *testing.T) {
	s, c := newScripted(), &count{limit: 10}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := storage.NewEngine(s, storage.EngineOptions{}).Do(ctx, []string{"k"}, c.decide)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.Empty(t, s.trips)
}

func TestManyWritersLoseNothing(t *testing.T) {
	s := newScripted()
	var wg sync.WaitGroup
	for range 4 { // engines of their own, as of four processes
		e := storage.NewEngine(s, storage.EngineOptions{Budget: time.Minute})
		for range 4 {
			wg.Go(func() {
				c := &count{limit: 1 << 20}
				for range 50 {
					if _, err := do(e, c, "a", "b"); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, s.records["a"].State, 800)
	require.Len(t, s.records["b"].State, 800)
}

func TestAChangeThatIsNoneIsRefused(t *testing.T) {
	s := newScripted()
	s.put("k", "x")
	e := storage.NewEngine(s, storage.EngineOptions{})
	_, err := e.Do(background, []string{"k"}, func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
		next[0].Verb = storage.Delete + 1
		return true, nil
	})
	require.ErrorIs(t, err, storage.ErrSwap)
	require.Equal(t, "x", string(s.records["k"].State))
}

// ofItsCaller is a store that must be called by the goroutine that asks, a transaction.
type ofItsCaller struct{ *gated }

func (ofItsCaller) InFlight() int { return 0 }

func TestNoOptionHasAnotherGoroutineCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ofItsCaller{newGated()}
		e := storage.NewEngine(s, storage.EngineOptions{InFlight: 1})
		c := &crowd{engine: e, limit: 9}
		c.call(background, "k")
		c.call(background, "k")
		require.Equal(t, []string{"k", "k"}, s.trips, "neither waits for the other's")
		close(s.gate)
		c.group.Wait()
	})
}

// unsure is a store that knows no number of round trips.
type unsure struct{ *gated }

func (unsure) InFlight() int { return -1 }

func TestANegativeNumberInFlightSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unsure{newGated()}
		c := &crowd{engine: storage.NewEngine(s, storage.EngineOptions{}), limit: 9}
		for _, key := range []string{"a", "b", "c"} {
			c.call(background, key)
		}
		require.Equal(t, []string{"a", "b"}, s.trips, "DefaultInFlight")
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"a", "b", "c"}, s.trips)
	})
}
