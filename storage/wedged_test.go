package storage_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func TestAStoreThatPanicsWedgesNobody(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		close(s.gate)
		s.refuse = func([]string) error { panic("driver") }
		c.start(func() {
			defer func() { recover() }()
			c.engine.Do(background, []string{"k"}, (&count{limit: 9}).decide)
		})
		s.refuse = nil
		after := c.call(background, "k")
		c.group.Wait()
		require.NoError(t, after.err)
	})
}

// A test that fails within its store does so, by t.FailNow.
func TestAStoreThatEndsTheGoroutineWedgesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		before, after bool // the write of the second
		stored        string
	}{
		"before a write":        {before: true, stored: "xx"},
		"after it":              {after: true, stored: "xxx"},
		"while it is looked up": {before: true, after: true, stored: "xx"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, storage.EngineOptions{}, func(s *gated, crowd *crowd) {
				first, second := crowd.call(background, "k"), crowd.call(background, "k")
				calls := 0
				s.refuse = func([]string) error {
					switch calls++; {
					case calls == 2 && c.before && c.after:
						return errors.New("reset")
					case calls == 2 && c.before, calls == 3 && c.before && c.after:
						runtime.Goexit()
					}
					return nil
				}
				s.lose = func([]string) error {
					if calls == 2 && c.after {
						runtime.Goexit()
					}
					return nil
				}
				close(s.gate)
				crowd.group.Wait()
				require.NoError(t, first.err)
				require.ErrorIs(t, second.err, storage.ErrOutcomeUnknown)
				third := crowd.call(background, "k")
				crowd.group.Wait()
				require.NoError(t, third.err)
				require.Equal(t, c.stored, string(s.records["k"].State))
			})
		})
	}
}

func TestADecisionAndThenTheStoreEndTheGoroutine(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		c.start(func() {
			_, _ = c.engine.Commit(background, []string{"k"}, func(time.Time, [][]byte, []storage.Change) (bool, error) {
				runtime.Goexit()
				return false, nil
			})
		})
		last, calls := c.call(background, "k"), 0
		s.refuse = func([]string) error {
			if calls++; calls == 2 {
				runtime.Goexit()
			}
			return nil
		}
		close(s.gate)
		c.group.Wait()
		require.ErrorIs(t, last.err, storage.ErrOutcomeUnknown)
		require.Equal(t, 2, calls)
	})
}

func TestADecisionThatEndsItsGoroutineWedgesNobody(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		close(s.gate)
		runs := 0
		c.start(func() {
			c.engine.Do(background, []string{"k"}, func(time.Time, [][]byte, []storage.Change) (bool, error) {
				if runs++; runs > 1 {
					runtime.Goexit()
				}
				return false, nil
			})
		})
		after := c.call(background, "k")
		c.group.Wait()
		require.NoError(t, after.err)
	})
}

func TestADecisionThatEndsTheGoroutineOfOthersWedgesNobody(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		runs := 0
		c.start(func() {
			c.engine.Do(background, []string{"k"}, func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
				if runs++; runs > 1 {
					runtime.Goexit()
				}
				return false, nil
			})
		})
		after := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.NoError(t, after.err)
	})
}

func TestAnErrorOnARememberedStateIsLookedUp(t *testing.T) {
	s := newScripted()
	s.put("k", "bad")
	e := storage.NewEngine(s, storage.EngineOptions{MaxAge: time.Nanosecond})
	bad := errors.New("not a state of this policy")
	decide := func(_ time.Time, found [][]byte, next []storage.Change) (bool, error) {
		if string(found[0]) == "bad" {
			return false, bad
		}
		next[0] = storage.Change{Verb: storage.Put, State: []byte("good")}
		return true, nil
	}
	_, err := e.Do(background, []string{"k"}, decide)
	require.ErrorIs(t, err, bad)
	delete(s.records, "k") // another process resets it, or it expires
	_, err = e.Do(background, []string{"k"}, decide)
	require.NoError(t, err)
}

// badLoad cannot read one key.
type badLoad struct{ *gated }

func (b *badLoad) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if slices.Contains(keys, "bad") {
		return nil, errors.New("WRONGTYPE")
	}
	return b.gated.Load(ctx, keys...)
}

func TestALookThatFailsForOneFailsForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &badLoad{newGated()}
		c := &crowd{engine: storage.NewEngine(s, storage.EngineOptions{InFlight: 1}), limit: 1000}
		look := func(_ time.Time, found [][]byte, _ []storage.Change) (bool, error) { return false, nil }
		var good, bad error
		c.call(background, "first")
		c.start(func() { _, good = c.engine.Do(background, []string{"good"}, look) })
		c.start(func() { _, bad = c.engine.Do(background, []string{"bad"}, look) })
		close(s.gate)
		c.group.Wait()
		require.Error(t, bad)
		require.ErrorIs(t, bad, storage.ErrNotApplied, "a look stores nothing")
		require.NoError(t, good)
	})
}

func TestADenialIsNeverUnknown(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.limit = 2
		c.call(background, "k")
		allowed := c.call(background, "k")
		denied := c.call(background, "k")
		own := errors.New("own")
		var told error
		c.start(func() {
			_, told = c.engine.Do(background, []string{"k"}, func(_ time.Time, found [][]byte, next []storage.Change) (bool, error) {
				if next[0] = (storage.Change{Verb: storage.Put}); found[0] == nil {
					return false, nil
				}
				return false, own
			})
		})
		n := 0
		s.lose = func([]string) error {
			if n++; n > 1 {
				return errLost
			}
			return nil
		}
		close(s.gate)
		c.group.Wait()
		require.ErrorIs(t, allowed.err, storage.ErrOutcomeUnknown)
		if denied.err != nil {
			require.NotErrorIs(t, denied.err, storage.ErrOutcomeUnknown)
		}
		require.NotErrorIs(t, told, storage.ErrOutcomeUnknown)
	})
}

func TestTheTimeBeginsWithTheCall(t *testing.T) {
	inBubble(t, storage.EngineOptions{Budget: time.Second, InFlight: 2}, func(s *gated, c *crowd) {
		s.refuse = func(keys []string) error {
			if keys[0] == "k" {
				time.Sleep(900 * time.Millisecond)
				return storage.NotApplied(storage.ErrUnavailable)
			}
			time.Sleep(20 * time.Second) // a tardy store
			return nil
		}
		close(s.gate)
		var took time.Duration
		c.start(func() {
			began := time.Now()
			c.engine.Do(background, []string{"k"}, (&count{limit: 9}).decide)
			took = time.Since(began)
		})
		c.call(background, "a")
		time.Sleep(10 * time.Millisecond)
		c.call(background, "b")
		time.Sleep(10 * time.Millisecond)
		c.call(background, "c")
		c.group.Wait()
		require.LessOrEqual(t, took, time.Second)
	})
}

func TestAnErrorOfOthersIsNotToldToThoseWhoWait(t *testing.T) {
	inBubble(t, storage.EngineOptions{Budget: time.Second, InFlight: 2}, func(s *gated, c *crowd) {
		theirs := errors.New("keys of two servers")
		c.call(background, "z")
		z := c.call(background, "z")
		_, err := c.engine.Do(background, []string{"q"}, func(_ time.Time, found [][]byte, next []storage.Change) (bool, error) { return true, theirs })
		require.ErrorIs(t, err, theirs)
		s.refuse = func(keys []string) error {
			if keys[0] == "a" {
				return storage.NotApplied(theirs)
			}
			time.Sleep(time.Hour)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
		c.call(background, "a")
		s.gate <- struct{}{}
		s.gate <- struct{}{}
		c.group.Wait()
		require.NotErrorIs(t, z.err, theirs)
		close(s.gate)
	})
}

// A caller may reuse its slice of keys when Do has returned. Here Do returns because its
// context is cancelled, while the write is in flight or waits for another one.
func TestKeysAreTheCallersAgainWhenDoReturns(t *testing.T) {
	for name, c := range map[string]struct {
		keys    []string
		waiting bool // behind a write of the first key
	}{
		"one key, in flight":     {keys: []string{"k"}},
		"one key, waiting":       {keys: []string{"k"}, waiting: true},
		"several keys in flight": {keys: []string{"k", "l", "m", "n", "o"}},
		"several keys, waiting":  {keys: []string{"k", "l", "m", "n", "o"}, waiting: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, storage.EngineOptions{}, func(s *gated, crowd *crowd) {
				if c.waiting {
					crowd.call(background, "k")
				}
				ctx, cancel := context.WithCancel(background)
				keys := slices.Clone(c.keys)
				var err error
				crowd.start(func() {
					_, err = crowd.engine.Do(ctx, keys, (&count{limit: 9}).decide)
					for i := range keys {
						keys[i] = "reused"
					}
				})
				cancel()
				synctest.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, !c.waiting, errors.Is(err, storage.ErrOutcomeUnknown))
				require.Equal(t, "reused", keys[0])

				close(s.gate)
				after := crowd.call(background, c.keys...)
				crowd.group.Wait()
				require.NoError(t, after.err)
				require.NotContains(t, s.records, "reused")
				require.Equal(t, "xx", string(s.records["k"].State))
				for _, key := range c.keys[1:] {
					require.Equal(t, map[bool]string{false: "xx", true: "x"}[c.waiting], string(s.records[key].State))
				}
			})
		})
	}
}

func TestContentionIsToldWhenTheLastSwapIsCutOff(t *testing.T) {
	for _, o := range []storage.EngineOptions{{}, {NoSharing: true, NoCombining: true}} {
		o.Budget = time.Second
		inBubble(t, o, func(s *gated, c *crowd) {
			close(s.gate)
			began := time.Now()
			s.refuse = func(keys []string) error {
				if time.Since(began) > 900*time.Millisecond {
					time.Sleep(time.Until(began.Add(time.Second)))
					return storage.NotApplied(context.DeadlineExceeded)
				}
				s.put("k", "x")
				time.Sleep(time.Millisecond)
				return nil
			}
			k := c.call(background, "k")
			c.group.Wait()
			require.ErrorIs(t, k.err, storage.ErrContended)
		})
	}
}

func TestThoseWhoLeftTakeNoRoom(t *testing.T) {
	inBubble(t, storage.EngineOptions{Queue: 2}, func(s *gated, c *crowd) {
		c.call(background, "k")
		ctx, cancel := context.WithCancel(background)
		c.call(ctx, "k")
		c.call(ctx, "k")
		cancel()
		synctest.Wait()
		k := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.NoError(t, k.err)
	})
}

func TestBeingCancelledIsNoContention(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		ctx, cancel := context.WithCancel(background)
		k := c.call(ctx, "k")
		cancel()
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.NotErrorIs(t, k.err, storage.ErrContended)
	})
}
