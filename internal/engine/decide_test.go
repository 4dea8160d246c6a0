package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var (
	everyWay   = append([]way{inMemory}, remoteWays...)
	everyWayOn = append(append([]way{}, everyWay...), callerWays...)
)

func TestADecisionTakesUpToTheLimit(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		for range 3 {
			b.allowed(b.decide(newCall(counter(3), "k")))
		}
		b.denied(b.decide(newCall(counter(3), "k")))
	})
}

func TestOneRoundTripPerDecisionAndNoneForARepeatedDenial(t *testing.T) {
	each(t, append(batchWays, callerWays[:2]...), engine.Options{}, func(b *bench) {
		for range 3 {
			c := b.allowed(b.decide(newCall(counter(3), "k")))
			require.Equal(b, engine.How{Attempts: 1}, c.how)
		}
		require.Len(b, b.store.trips, 3)
		c := b.denied(b.decide(newCall(counter(3), "k")))
		require.Equal(b, engine.How{Attempts: 1}, c.how)
		c = b.denied(b.decide(newCall(counter(3), "k")))
		require.Equal(b, engine.How{Attempts: 1, Cached: true}, c.how)
		require.Len(b, b.store.trips, 4)
	})
}

func TestSwapsTakeALoadAndASwapAndNothingForARepeatedDenial(t *testing.T) {
	each(t, []way{bySwaps, bySwapsClock, callerWays[2]}, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "k")))
		require.Equal(b, []string{"load k", "swap k"}, b.store.trips)
		b.denied(b.decide(newCall(counter(1), "k")))
		require.True(b, b.denied(b.decide(newCall(counter(1), "k"))).how.Cached)
		require.Equal(b, []string{"load k", "swap k", "load k"}, b.store.trips)
	})
}

func TestAConflictIsDecidedAgainOnWhatIsStored(t *testing.T) {
	each(t, []way{bySwaps, bySwapsClock, declined, callerWays[2]}, engine.Options{}, func(b *bench) {
		loads := 0
		b.store.after = func([]string) error {
			if loads++; loads == 1 {
				b.store.put("k", "xx") // by another process, after the load
			}
			return nil
		}
		if b.way.name == declined.name {
			loads = -1 // the server's batch comes first
		}
		c := b.allowed(b.decide(newCall(counter(3), "k")))
		require.Equal(b, 2, c.how.Attempts)
		require.Equal(b, "xxx", b.store.state("k"))
	})
}

func TestAllKeysOrNone(t *testing.T) {
	each(t, everyWayOn, engine.Options{DenialCacheTTL: -1}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1), "a")))
		b.denied(b.decide(newCall(counter(1), "a", "b")))
		b.allowed(b.decide(newCall(counter(1), "b")))
		b.allowed(b.decide(newCall(counter(2), "a", "b")))
		b.denied(b.decide(newCall(counter(2), "a", "b")))
	})
}

func TestAShadowDeniesNothing(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		for i := range 3 {
			c := newCall(counter(1), "shadow", "enforced")
			c.Uses[0].Shadow, c.Uses[1].Program = true, counter(2)
			b.decide(c)
			require.NoError(b, c.err)
			require.Equal(b, i < 2, c.allowed)
		}
	})
}

func TestARequestWithoutKeysNeedsNoStore(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(counter(1))))
		require.Empty(b, b.store.trips)
	})
}

func TestEveryAttemptReadsTheClock(t *testing.T) {
	now := time.Unix(100, 0)
	clock := func() time.Time { now = now.Add(1); return now }
	each(t, remoteWays, engine.Options{Clock: clock}, func(b *bench) {
		failures := 2
		b.store.before = func([]string) error {
			if failures--; failures == 0 {
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		for range 2 {
			earlier := now
			c := b.allowed(b.decide(newCall(counter(9), "k")))
			require.True(b, c.times[0].After(earlier))
			if n := len(c.times); n > 1 {
				require.True(b, c.times[n-1].After(c.times[0]))
			}
		}
	})
}

func TestWithoutAClockTheServersClockDecides(t *testing.T) {
	each(t, []way{onServer, inTransaction, bySwapsClock, callerWays[0], callerWays[1]}, engine.Options{}, func(b *bench) {
		b.store.clock = func() time.Time { return time.Unix(12345, 0) }
		c := b.allowed(b.decide(newCall(counter(1), "k")))
		require.Equal(b, time.Unix(12345, 0), c.times[0])
	})
}

func TestAPeekAndARefundAreNotAnsweredFromTheCache(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		for range 3 {
			b.decide(newCall(counter(2), "k"))
		}
		peek := newCallOf(driver.Peek, nil, "k")
		require.NoError(b, b.decide(peek).err)
		require.Equal(b, []string{"xx"}, peek.states)
		require.False(b, peek.how.Cached)
		refund := newCallOf(driver.Refund, counter(2), "k")
		require.NoError(b, b.decide(refund).err)
		require.False(b, refund.how.Cached)
		b.allowed(b.decide(newCall(counter(2), "k")))
		charge := newCallOf(driver.Charge, counter(2), "k")
		require.NoError(b, b.decide(charge).err)
		require.NoError(b, b.decide(peek).err)
		require.Equal(b, []string{"xxx"}, peek.states)
		require.NoError(b, b.decide(newCallOf(driver.Reset, nil, "k")).err)
		require.NoError(b, b.decide(peek).err)
		require.Equal(b, []string{""}, peek.states)
	})
}

// An error of the evaluator is returned as it is, and nothing is stored. A server has decided
// already when Go evaluates.
func TestAnErrorOfTheDecisionIsReturnedAsItIs(t *testing.T) {
	own := []error{errors.New("own"), context.DeadlineExceeded, storage.ErrUnavailable, storage.ErrContended}
	each(t, append([]way{inMemory, inTransaction, bySwaps, bySwapsClock, declined}, callerWays[1:]...), engine.Options{}, func(b *bench) {
		for i, err := range own {
			c := newCall(counter(9), fmt.Sprint("k", i))
			c.before = func() error { return err }
			require.Equal(b, err, b.decide(c).err)
			require.Len(b, c.times, 1)
			require.Zero(b, b.store.state(c.Keys[0]))
		}
		b.allowed(b.decide(newCall(counter(1), "k0")))
	})
}

func TestAStateThatCannotBeReadIsTheErrorOfItsRequest(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{}, func(b *bench) {
		b.store.put("k", "damaged")
		for range 2 {
			require.Equal(b, errState, b.decide(newCall(counter(9), "other", "k")).err)
			require.Zero(b, b.store.state("other"))
		}
		c := newCall(counter(9), "other", "k")
		c.Uses[1].Shadow = true
		b.allowed(b.decide(c))
		require.Equal(b, "x", b.store.state("other"))
		b.store.remove("k")
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

// verb is an evaluator whose change means nothing.
type verb struct{ *call }

func (verb) Evaluate(_ time.Time, _ [][]byte, changes []driver.Change) (int, error) {
	changes[0].Verb = driver.Delete + 1
	return 1, nil
}

func TestAChangeThatMeansNothingIsRefused(t *testing.T) {
	each(t, append([]way{inMemory, inTransaction, bySwaps, declined}, callerWays[1:]...), engine.Options{}, func(b *bench) {
		c := newCall(counter(9), "k")
		c.Evaluator = verb{c}
		require.ErrorIs(b, b.decide(c).err, storage.ErrSwap)
	})
}

func TestKeysThatCannotBeStoredAreRefused(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		require.ErrorIs(b, b.decide(newCall(counter(9), "k", "k")).err, storage.ErrDuplicateKey)
		require.ErrorIs(b, b.decide(newCall(counter(9), strings.Repeat("k", storage.MaxKey+1))).err, storage.ErrKey)
		require.Empty(b, b.store.trips)
	})
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		ctx, cancel := context.WithCancel(background)
		cancel()
		for range 2 {
			err := b.decideFor(ctx, newCall(counter(9), "k")).err
			require.ErrorIs(b, err, context.Canceled)
			require.ErrorIs(b, err, storage.ErrNotApplied)
		}
		require.Empty(b, b.store.trips)
	})
}

func TestAPanicOfTheEvaluatorIsRaisedAgain(t *testing.T) {
	each(t, everyWayOn, engine.Options{}, func(b *bench) {
		for range 3 {
			c := newCall(counter(9), "k")
			c.before = func() error { panic("at the disco") }
			require.Equal(b, "at the disco", b.decide(c).panicked)
		}
		if b.name != onServer.name && b.name != callerWays[0].name { // which has stored it already
			b.allowed(b.decide(newCall(counter(1), "k")))
		}
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}

// What takes the place of a program that the server does not have.
func TestARequestWithoutAProgramIsDecidedBySwaps(t *testing.T) {
	each(t, []way{onServer, callerWays[0]}, engine.Options{}, func(b *bench) {
		nameless := &algo.Program{Args: []int64{3}}
		for _, change := range []func(*engine.Use){
			func(u *engine.Use) { u.Program = nameless }, // Runs says no
			func(u *engine.Use) { u.Cost = 1 << 53; u.Program = counter(1 << 54) },
		} {
			b.store.trips = nil
			c := newCall(counter(3), "k")
			change(&c.Uses[0])
			if c.Uses[0].Cost > 1 {
				c.Uses[0].Op = driver.Refund // of everything
			}
			b.allowed(b.decide(c))
			require.Equal(b, []string{"load k", "swap k"}, b.store.trips)
		}
	})
}
