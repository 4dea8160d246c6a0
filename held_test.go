package sluice_test

// These tests promise that units under a rule such as "inflight 20 ttl=30s" are held until they are released, once, or return by
// themselves, and what Do, Hold and Keep return.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// tasks are the rules of most tests: 2 tasks at the same time, and 10 an hour.
func tasks() []sluice.Rule[call] { return rulesOf("inflight 2 ttl=30s", "fixedwindow 10/h") }

// reserveOne requires that a reservation of ann succeeds.
func reserveOne(t *testing.T, l *sluice.Limiter[call]) *sluice.Reservation[call] {
	t.Helper()
	return reserve(t, l, ann, 1)
}

func TestReleaseGivesBackHeldUnitsOnce(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
		first := reserveOne(t, l)
		reserveOne(t, l)
		d := must(t)(l.Allow(background, ann))
		require.False(t, d.Allowed)
		require.Equal(t, "rule 0", d.Rule)
		require.LessOrEqual(t, d.RetryAfter, 33*time.Second)
		require.Equal(t, []int64{0, 8}, remaining(t, l, ann), "a denial charges no rule")

		require.NoError(t, first.Release(background))
		require.Equal(t, []int64{1, 8}, remaining(t, l, ann), "the rate stays charged")
		require.NoError(t, first.Release(background), "it does nothing")
		require.NoError(t, first.Renew(background), "it does nothing")
		require.Equal(t, []int64{1, 8}, remaining(t, l, ann))

		must(t)(first.Settle(background, 0))
		require.Equal(t, []int64{1, 9}, remaining(t, l, ann), "the rate can still be settled")
		require.NoError(t, first.Release(background))
	})
}

func TestSettleReleasesHeldUnitsOnce(t *testing.T) {
	for name, store := range memoryStores() {
		settles := map[int64]func(r *sluice.Reservation[call]) (sluice.Decision, error){
			1: func(r *sluice.Reservation[call]) (sluice.Decision, error) { return r.SettleFor(background, ann) },
		}
		for _, actual := range []int64{0, 3} {
			settles[actual] = func(r *sluice.Reservation[call]) (sluice.Decision, error) { return r.Settle(background, actual) }
		}
		for actual, settle := range settles {
			l := newLimiter(t, sluice.Options[call]{Namespace: string(rune('a' + actual))}, store, tasks()...)
			first := reserveOne(t, l)
			reserveOne(t, l)
			must(t)(settle(first))
			require.NoError(t, first.Release(background), "it would free the unit of the other call")
			require.NoError(t, first.Renew(background), "it does nothing")
			require.Equal(t, []int64{1, 9 - actual}, remaining(t, l, ann), name)
		}
	}
}

func TestNothingToReleaseIsAnErrorOrNothing(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("inflight 1 ttl=30s")...)
	reserveOne(t, l)
	denied, d, err := l.Reserve(background, ann, 1)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.ErrorContains(t, denied.Release(background), "there is no reservation, because the calls were denied")
	require.ErrorContains(t, denied.Renew(background), "there is no reservation, because the calls were denied")

	rate := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 10/h")...)
	r := reserveOne(t, rate)
	require.NoError(t, r.Release(background))
	require.NoError(t, r.Renew(background))
	require.Equal(t, []int64{9}, remaining(t, rate, ann))
	for _, r := range []*sluice.Reservation[call]{denied, r} {
		held, stop := r.Keep(background)
		stop()
		stop()
		require.Equal(t, background, held)
	}
}

func TestHeldUnitsReturnAfterTheirTTL(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=30s")...)
		late := reserveOne(t, l)
		d := must(t)(l.Allow(background, ann))
		require.Greater(t, d.RetryAfter, 30*time.Second)
		require.LessOrEqual(t, d.RetryAfter, 33*time.Second)
		time.Sleep(d.RetryAfter)

		other := reserveOne(t, l)
		require.NoError(t, late.Release(background), "it does nothing")
		err := late.Renew(background)
		require.ErrorIs(t, err, sluice.ErrHoldLost)
		require.ErrorContains(t, err, `rule "rule 0" has a ttl of 30s`)
		require.Zero(t, remaining(t, l, ann)[0], "a late release frees nothing of others: %s")

		for range 10 {
			time.Sleep(20 * time.Second)
			require.NoError(t, other.Renew(background))
			require.Zero(t, remaining(t, l, ann)[0], "a renewal charges nothing and holds the unit: %s")
		}
		require.NoError(t, other.Release(background))
		require.Equal(t, []int64{1}, remaining(t, l, ann))
	})
}

// A store that has lost its records must not be told to free units that others have taken since.
func TestRenewTakesUnitsAgainThatTheStoreHasLost(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
		r := reserveOne(t, l)
		require.NoError(t, l.Reset(background, ann))
		require.NoError(t, r.Renew(background))
		require.Equal(t, []int64{1, 10}, remaining(t, l, ann))
		require.NoError(t, r.Release(background))
		require.Equal(t, []int64{2, 10}, remaining(t, l, ann))

		r = reserveOne(t, l)
		require.NoError(t, l.Reset(background, ann))
		time.Sleep(4 * time.Second) // units of another slot
		first, second := reserveOne(t, l), reserveOne(t, l)
		err := r.Renew(background)
		require.ErrorIs(t, err, sluice.ErrHoldLost)
		require.ErrorContains(t, err, `rule "rule 0"`)
		require.NoError(t, r.Release(background), "it does nothing")
		require.Zero(t, remaining(t, l, ann)[0])
		require.NoError(t, first.Renew(background))
		require.NoError(t, second.Renew(background))
	})
}

// The units under the other rule are still held, so Release gives them back.
func TestRenewLosesOnlyTheUnitsThatHaveReturned(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 3 ttl=24h", "inflight 2 ttl=30s")...)
		r := reserveOne(t, l)
		require.NoError(t, l.ResetRule(background, "rule 1", ann))
		time.Sleep(4 * time.Second) // units of another slot
		reserveOne(t, l)
		reserveOne(t, l)
		for range 2 {
			err := r.Renew(background)
			require.ErrorIs(t, err, sluice.ErrHoldLost)
			require.ErrorContains(t, err, `the store has lost the units of rule "rule 1"`)
		}
		require.NoError(t, r.Release(background))
		require.Equal(t, []int64{1, 0}, remaining(t, l, ann))
	})
}

// The units under "own" were not taken again either, so a later Release must not free those of others.
func TestRenewLosesAllUnitsThatItCannotTakeAgain(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.By("all", func(call) string { return "" }, "inflight 1 ttl=10s"), sluice.By("own", byUser, "inflight 3 ttl=24h"))
		r := reserveOne(t, l)
		require.NoError(t, l.Reset(background, ann))
		time.Sleep(4 * time.Second)
		bob, _, err := l.Reserve(background, call{user: "bob"}, 1)
		require.NoError(t, err)
		require.ErrorIs(t, r.Renew(background), sluice.ErrHoldLost)
		require.NoError(t, bob.Release(background))
		reserveOne(t, l) // in the same slot of "own"
		require.NoError(t, r.Release(background))
		require.Equal(t, []int64{0, 2}, remaining(t, l, ann))
	})
}

// lateReplies applies writes, but does not answer them while on is set.
type lateReplies struct {
	storage.Store
	on *bool
}

func (s lateReplies) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	current, swapped, err := s.Store.CompareAndSwap(ctx, swaps...)
	if *s.on && swapped {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return current, swapped, err
}

// A renewal whose reply was lost does not find the units that it has renewed. Then it must not take more and more of them.
func TestRenewalsWithoutRepliesTakeFewUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, store := false, new(memory.Store)
		l := newLimiter(t, sluice.Options[call]{}, lateReplies{store, &late}, rulesOf("inflight 100 ttl=60s")...)
		other := newLimiter(t, sluice.Options[call]{}, swapOnly{store}, rulesOf("inflight 100 ttl=60s")...)
		_, err := l.Do(background, ann, func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			late = true
			for range 14 {
				time.Sleep(5 * time.Second)
				require.GreaterOrEqual(t, remaining(t, other, ann)[0], int64(96))
			}
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, sluice.ErrHoldLost)
	})
}

func TestRenewCanBeRepeatedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, faulty := false, newFaultyStore()
		l := newLimiter(t, sluice.Options[call]{CircuitOpenAfter: -1}, lateReplies{faulty, &late}, rulesOf("inflight 2 ttl=30s")...)
		r := reserveOne(t, l)
		time.Sleep(4 * time.Second) // renewed units are of another slot
		late = true
		require.ErrorIs(t, r.Renew(background), storage.ErrOutcomeUnknown)
		late = false
		require.NoError(t, r.Renew(background))
		require.NoError(t, l.Reset(background, ann))
		faulty.swapErr = errNoTable // so the units cannot be taken again
		require.ErrorIs(t, r.Renew(background), errNoTable)
		faulty.swapErr = nil
		require.NoError(t, r.Renew(background))
	})
}

// A process with a new limit writes the state while a process with the old one holds units. A renewal may not find its unit. Then it
// takes another one, and the first returns by itself.
func TestUnitsAreHeldWhileTheLimitChanges(t *testing.T) {
	for name, store := range memoryStores() {
		for before, after := range map[string]string{
			"inflight 9 ttl=3s":         "inflight 9 ttl=60s",
			"inflight 9 ttl=60s":        "inflight 9 ttl=30s",
			"inflight 9 ttl=3s slots=1": "inflight 9 ttl=3s",
			"inflight 9 ttl=4s":         "inflight 9 ttl=4s slots=7",
		} {
			synctest.Test(t, func(t *testing.T) {
				old := newLimiter(t, sluice.Options[call]{}, store, rulesOf(before)...)
				l := newLimiter(t, sluice.Options[call]{}, store, rulesOf(after)...)
				require.NoError(t, l.Reset(background, ann))
				first, second := reserveOne(t, old), reserveOne(t, old)
				require.NoError(t, reserveOne(t, l).Release(background))
				for range 20 {
					time.Sleep(time.Second)
					require.NoError(t, first.Renew(background), "%s: %s", name, before)
					require.NoError(t, second.Renew(background), "%s: %s", name, before)
				}
				require.NoError(t, first.Release(background))
				require.NoError(t, second.Release(background))
				time.Sleep(66 * time.Second)
				d := must(t)(l.Peek(background, ann))
				require.Equal(t, d.Results[0].Limit, d.Remaining, "%s: %s", name, before)
			})
		}
	}
}

// A renewal within one slot renews the unit too, so that it does not return early when the slots become narrower.
func TestRenewedUnitsAreHeldWhileTheSlotsChange(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		time.Sleep(100 * time.Millisecond)
		r := reserveOne(t, newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=3s slots=1")...))
		time.Sleep(2800 * time.Millisecond)
		require.NoError(t, r.Renew(background))
		time.Sleep(1100 * time.Millisecond)
		narrow := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=3s slots=10")...)
		require.False(t, must(t)(narrow.Allow(background, ann)).Allowed)
	})
}

func TestUnitsThatWereTakenAfterAClockHasSteppedBackAreFound(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		for _, back := range []time.Duration{11 * time.Second, 9 * time.Second} { // only the longer one moves the state
			l := newLimiter(t, sluice.Options[call]{Namespace: back.String()}, store, rulesOf("inflight 3 ttl=30s")...)
			reserveOne(t, l)
			clock.advance(-back)
			r := reserveOne(t, l)
			require.NoError(t, r.Renew(background), name)
			require.Equal(t, []int64{1}, remaining(t, l, ann), name)
			require.NoError(t, r.Release(background), name)
			require.Equal(t, []int64{2}, remaining(t, l, ann), name)
		}
	}
}

func TestLostUnitsOfAShadowRuleAreNoError(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		rules := rulesOf("inflight 2 ttl=1s", "inflight 3 ttl=24h")
		rules[0].Shadow = true
		l := newLimiter(t, sluice.Options[call]{}, store, rules...)
		reset, late := reserveOne(t, l), reserveOne(t, l)
		require.NoError(t, l.ResetRule(background, "rule 0", ann))
		require.NoError(t, reset.Renew(background))
		reserveOne(t, l)
		require.NoError(t, reset.Release(background))
		require.Equal(t, []int64{1, 1}, remaining(t, l, ann))
		time.Sleep(time.Second)
		require.NoError(t, late.Renew(background))
	})
}

// A release finds its unit by the time at which it was taken, unless a denial by its own rule has moved the state. Then the unit
// returns by itself.
func TestHeldUnitsSurviveAClockThatStepsBack(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		for _, c := range []struct {
			holds       int    // the reservations, of which one is released
			rate        string // of the other rule
			isDenied    bool   // a call after the step
			least, most int64  // the units left after the release
		}{
			{2, "fixedwindow 9/m", false, 1, 1},
			{1, "fixedwindow 1/m", true, 2, 2},
			{2, "fixedwindow 9/m", true, 0, 1},
		} {
			l := newLimiter(t, sluice.Options[call]{Namespace: fmt.Sprint(c)}, store, rulesOf("inflight 2 ttl=30s", c.rate)...)
			first := reserveOne(t, l)
			for range c.holds - 1 {
				reserveOne(t, l)
			}
			clock.advance(-time.Hour)
			if c.isDenied {
				require.False(t, must(t)(l.Allow(background, ann)).Allowed, name)
			}
			require.NoError(t, first.Release(background), name)
			left := remaining(t, l, ann)[0]
			require.GreaterOrEqual(t, left, c.least, "%s: %+v", name, c)
			require.LessOrEqual(t, left, c.most, "%s: %+v", name, c)
			clock.advance(33 * time.Second)
			require.Positive(t, remaining(t, l, ann)[0], "%s: nobody is locked out", name)
		}
	}
}

func TestDenialByHeldUnitsIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(0)
		mine := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=30s")...)
		other := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=30s")...)
		lost := reserveOne(t, mine)
		require.NoError(t, other.Reset(background, ann))
		time.Sleep(4 * time.Second)
		third := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 1 ttl=30s")...) // it reserves nothing
		for _, c := range []struct {
			l      *sluice.Limiter[call]
			denied func()
		}{
			{mine, func() { require.False(t, must(t)(mine.Allow(background, ann)).Allowed) }},
			{mine, func() { require.ErrorIs(t, lost.Renew(background), sluice.ErrHoldLost) }},
			{third, func() { require.False(t, must(t)(third.Allow(background, ann)).Allowed) }},
		} {
			r := reserveOne(t, other)
			c.denied()
			require.NoError(t, r.Release(background))
			d := must(t)(c.l.Allow(background, ann))
			require.True(t, d.Allowed)
			require.NoError(t, other.Reset(background, ann))
		}
	})
}

// Only the denials of the other rules are cached, and a release gives none of their units back.
func TestReleaseLeavesDenialsInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(0)
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("inflight 9 ttl=30s", "fixedwindow 1/h")...)
		must(t)(l.Do(background, call{user: "bob"}, func(context.Context) error { return nil }))
		must(t)(l.Allow(background, ann))
		before := store.trips.Load()
		for range 900 {
			require.False(t, must(t)(l.Allow(background, ann)).Allowed)
			time.Sleep(time.Millisecond)
		}
		require.EqualValues(t, 1, store.trips.Load()-before)
	})
}

func TestDoHoldsUnitsWhileItsFunctionRuns(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
		failed := errors.New("failed")
		d, err := l.Do(background, ann, func(ctx context.Context) error {
			time.Sleep(5 * time.Minute)
			require.NoError(t, ctx.Err())
			require.Equal(t, []int64{1, 9}, remaining(t, l, ann))
			return failed
		})
		require.ErrorIs(t, err, failed)
		require.True(t, d.Allowed)
		require.Equal(t, []int64{2, 9}, remaining(t, l, ann))

		require.PanicsWithValue(t, "f", func() {
			_, _ = l.Do(background, ann, func(context.Context) error { panic("f") })
		})
		require.Equal(t, []int64{2, 8}, remaining(t, l, ann))

		reserveOne(t, l)
		reserveOne(t, l)
		d, err = l.Do(background, ann, func(context.Context) error { panic("it must not be called") })
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, []int64{0, 6}, remaining(t, l, ann))
	})
}

func TestDoReleasesAfterItsContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, tasks()...)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := l.Do(ctx, ann, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Hour) // it cleans up, and still holds the unit
			require.Equal(t, int64(1), remaining(t, l, ann)[0])
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, sluice.ErrHoldLost)
		require.Equal(t, int64(2), remaining(t, l, ann)[0])
	})
}

// Otherwise it would end the program, also if the caller recovers.
func TestPanicInARenewalReachesTheCallerOfDo(t *testing.T) {
	for name, fails := range map[string]func(){"panic": func() { panic("the observer panics") }, "goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			allowed := 0
			observer := func(_ context.Context, e sluice.Event) {
				if e.Op == sluice.OpAllow {
					if allowed++; allowed == 2 {
						fails()
					}
				}
			}
			l := newLimiter(t, sluice.Options[call]{Observer: observer}, nil, tasks()...)
			var cause error
			do := func() {
				_, _ = l.Do(background, ann, func(ctx context.Context) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil
				})
			}
			if name == "panic" {
				require.PanicsWithValue(t, "the observer panics", do)
			} else {
				do()
			}
			require.ErrorIs(t, cause, sluice.ErrHoldLost)
			require.Equal(t, []int64{2, 9}, remaining(t, l, ann))
		})
	}
}

// A round trip that gets no reply leaves time for another one, also if it may take longer than the TTL.
func TestDoSurvivesAnOutageOfTwoThirdsOfTheTTL(t *testing.T) {
	for _, timeout := range []time.Duration{0, 5 * time.Second, 12 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(time.Millisecond)
			l := newLimiter(t, sluice.Options[call]{Timeout: timeout}, store, tasks()...)
			_, err := l.Do(background, ann, func(ctx context.Context) error {
				time.Sleep(9 * time.Second)
				store.hangs.Store(true)
				time.Sleep(18 * time.Second)
				store.hangs.Store(false)
				time.Sleep(time.Minute)
				return context.Cause(ctx)
			})
			require.NoError(t, err)
		})
	}
}

// A round trip may take as long as Options.Timeout, or a third of the TTL.
func TestUnitsAreRenewedThreeTimesInEachTTL(t *testing.T) {
	for ttl, latency := range map[time.Duration]time.Duration{time.Second: 300 * time.Millisecond, 30 * time.Second: 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(latency)
			l := newLimiter(t, sluice.Options[call]{Timeout: 5 * time.Second}, store, rulesOf("inflight 1 ttl="+ttl.String(), "inflight 1 ttl=24h", "gcra 9/h")...)
			held, stop := reserveOne(t, l).Keep(background)
			defer stop()
			time.Sleep(10 * ttl)
			require.NoError(t, context.Cause(held))
			require.LessOrEqual(t, store.trips.Load(), int64(31))
		})
	}
}

func TestHoldsOfAnOutageAreLocal(t *testing.T) {
	for _, p := range []sluice.FailurePolicy{sluice.FailOpen, sluice.FailLocal} {
		store := newFaultyStore()
		l := newLimiter(t, sluice.Options[call]{OnFailure: p}, store, tasks()...)
		store.err = errNoTable
		first := reserveOne(t, l)
		reserveOne(t, l)
		_, d, err := l.Reserve(background, ann, 1)
		require.NoError(t, err)
		require.Equal(t, p == sluice.FailOpen, d.Allowed)
		require.NoError(t, first.Renew(background))
		require.NoError(t, first.Release(background))
		require.NoError(t, first.Release(background))
		_, d, err = l.Reserve(background, ann, 1)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		store.err = nil
		must(t)(first.Settle(background, 0))
		require.Equal(t, []int64{2, 10}, remaining(t, l, ann))
		store.err = errNoTable
		_, d, err = l.Reserve(background, ann, 1)
		require.NoError(t, err)
		require.Equal(t, p == sluice.FailOpen, d.Allowed, "Settle releases nothing again")
	}
}

func TestSettleReleasesLocalHoldsOnce(t *testing.T) {
	store := newFaultyStore()
	l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, tasks()...)
	store.err = errNoTable
	first := reserveOne(t, l)
	reserveOne(t, l)
	for range 2 {
		_, err := first.Settle(background, 1)
		require.NoError(t, err)
		require.NoError(t, first.Release(background), "it does nothing")
	}
	reserveOne(t, l)
	_, d, err := l.Reserve(background, ann, 1)
	require.False(t, must(t)(d, err).Allowed)
}

// If it is not known whether the units were released, a second release could free the units of another holder.
func TestUnitsAreNotReleasedAfterAnUnknownOutcome(t *testing.T) {
	for _, p := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen} {
		for _, giveBack := range []func(r *sluice.Reservation[call]){
			func(r *sluice.Reservation[call]) { _, _ = r.Settle(background, 1) },
			func(r *sluice.Reservation[call]) { _ = r.Release(background) },
		} {
			store := newFaultyStore()
			l := newLimiter(t, sluice.Options[call]{OnFailure: p}, store, tasks()...)
			first := reserveOne(t, l)
			reserveOne(t, l)
			store.err = storage.ErrOutcomeUnknown
			giveBack(first)
			store.err = nil
			require.NoError(t, first.Release(background), "it does nothing")
			require.Equal(t, []int64{0, 8}, remaining(t, l, ann))
		}
	}
}

func TestReleaseCanBeRepeatedAfterAFailure(t *testing.T) {
	store := newFaultyStore()
	l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
	r := reserveOne(t, l)
	store.err = errNoTable
	require.ErrorIs(t, r.Release(background), errNoTable)
	_, err := r.Settle(background, 1)
	require.ErrorIs(t, err, errNoTable)
	store.err = nil
	require.NoError(t, r.Release(background))
	require.Equal(t, int64(2), remaining(t, l, ann)[0])
}

func TestShadowRuleHoldsUnits(t *testing.T) {
	rules := tasks()
	rules[0].Shadow = true
	l := newLimiter(t, sluice.Options[call]{}, nil, rules...)
	var all []*sluice.Reservation[call]
	for range 3 {
		all = append(all, reserveOne(t, l)) // the third holds nothing under the shadow rule
	}
	require.Equal(t, []int64{0, 7}, remaining(t, l, ann))
	require.NoError(t, all[2].Release(background))
	require.Equal(t, []int64{0, 7}, remaining(t, l, ann))
	require.NoError(t, all[0].Release(background))
	require.Equal(t, []int64{1, 7}, remaining(t, l, ann))
}

func TestObserverSeesRenewalsAndReleasesOnce(t *testing.T) {
	var ops []sluice.Op
	l := newLimiter(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) {
		ops = append(ops, e.Op)
		require.Equal(t, sluice.Allowed, e.Outcome)
		require.Equal(t, "rule 0", e.Decision.Results[0].Rule)
	}}, nil, tasks()...)
	r := reserveOne(t, l)
	require.NoError(t, r.Renew(background))
	require.NoError(t, l.Reset(background, ann))
	require.NoError(t, r.Renew(background), "it takes the unit again")
	require.NoError(t, r.Release(background))
	require.Equal(t, []sluice.Op{sluice.OpAllow, sluice.OpAllow, sluice.OpReset, sluice.OpAllow, sluice.OpRefund}, ops)
}

// The middleware releases held units if a settlement panics.
func TestUnitsAreReleasedOnceIfTheObserverPanics(t *testing.T) {
	for name, giveBack := range map[string]func(r *sluice.Reservation[call]){
		"release": func(r *sluice.Reservation[call]) { _ = r.Release(background) },
		"settle":  func(r *sluice.Reservation[call]) { _, _ = r.Settle(background, 1) },
		"correct": func(r *sluice.Reservation[call]) { _, _ = r.Settle(background, 0) },
	} {
		l := newLimiter(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) {
			if e.Op == sluice.OpRefund {
				panic(name)
			}
		}}, nil, tasks()...)
		first := reserveOne(t, l)
		reserveOne(t, l)
		require.PanicsWithValue(t, name, func() { giveBack(first) })
		require.NoError(t, first.Release(background), "it would free the unit of the other call")
		require.Equal(t, int64(1), remaining(t, l, ann)[0], name)
		if name != "release" {
			_, err := first.Settle(background, 0)
			require.ErrorIs(t, err, sluice.ErrSettled)
		}
	}
}

func TestHeldUnitsReturnIfTheObserverPanics(t *testing.T) {
	for name, hold := range map[string]func(l *sluice.Limiter[call]){
		"Do":      func(l *sluice.Limiter[call]) { _, _ = l.Do(background, ann, nil) },
		"Hold":    func(l *sluice.Limiter[call]) { _, _, _, _ = l.Hold(background, ann) },
		"Reserve": func(l *sluice.Limiter[call]) { _, _, _ = l.Reserve(background, ann, 1) },
	} {
		down := newFaultyStore()
		down.err = errNoTable
		stores := memoryStores()
		stores["in an outage"] = down
		for where, store := range stores {
			fails := true
			l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal, Observer: func(context.Context, sluice.Event) {
				if fails {
					panic(name)
				}
			}}, store, tasks()...)
			for range 3 { // the limit is 2
				require.PanicsWithValue(t, name, func() { hold(l) })
			}
			fails = false
			require.Equal(t, []int64{2, 7}, remaining(t, l, ann), "%s %s", name, where)
		}
	}
}

// A panic of another rule comes after the units were counted, but they were not stored.
func TestHoldThatPanicsReleasesNothing(t *testing.T) {
	policy, armed := panicsOnce("gcra 10/h")
	l := newLimiter(t, sluice.Options[call]{}, nil, append(rulesOf("inflight 2 ttl=30s"), sluice.Rule[call]{Name: "user", Policy: policy})...)
	reserveOne(t, l)
	armed.Store(true)
	require.Panics(t, func() { _, _, _, _ = l.Hold(background, ann) })
	require.Equal(t, int64(1), remaining(t, l, ann)[0])
}

func TestHoldReleasesOnce(t *testing.T) {
	for name, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
		_, _, other, err := l.Hold(background, ann)
		require.NoError(t, err)
		d, ctx, release, err := l.Hold(background, ann)
		require.True(t, must(t)(d, err).Allowed)
		require.NoError(t, ctx.Err())
		require.Equal(t, []int64{0, 8}, remaining(t, l, ann), name)

		release()
		release()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.NotErrorIs(t, context.Cause(ctx), sluice.ErrHoldLost)
		require.Equal(t, []int64{1, 8}, remaining(t, l, ann), name)
		other()
		require.Equal(t, []int64{2, 8}, remaining(t, l, ann), name)
	}
}

func TestHoldThatHoldsNothingReturnsItsContext(t *testing.T) {
	shadow := rulesOf("inflight 1 ttl=30s", "gcra 10/h")
	shadow[0].Shadow = true
	down := newFaultyStore()
	down.err = errNoTable
	for name, test := range map[string]struct {
		ctx     context.Context
		limiter *sluice.Limiter[call]
		holds   int // calls that hold a unit before
	}{
		"a rate":       {background, newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 10/h")...), 0},
		"a denial":     {background, newLimiter(t, sluice.Options[call]{}, nil, tasks()...), 2},
		"a shadow":     {background, newLimiter(t, sluice.Options[call]{}, nil, shadow...), 1},
		"FailOpen":     {background, newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailOpen}, down, tasks()...), 0},
		"an error":     {background, newLimiter(t, sluice.Options[call]{}, down, tasks()...), 0},
		"an ended ctx": {ended, newLimiter(t, sluice.Options[call]{}, newFaultyStore(), tasks()...), 0},
	} {
		for range test.holds {
			_, held, _, err := test.limiter.Hold(background, ann)
			require.NoError(t, err)
			require.NotEqual(t, background, held)
		}
		_, held, release, _ := test.limiter.Hold(test.ctx, ann)
		require.Equal(t, test.ctx, held, name)
		release()
		require.Equal(t, test.ctx.Err(), held.Err(), name)
	}
}

// The key of a held unit has the group and the kind of the policy.
func TestHoldReleasesTheKeyOfTheInput(t *testing.T) {
	for _, store := range memoryStores() {
		kinds := map[bool]algo.Policy{false: sluice.MustPolicy("inflight 3 ttl=30s"), true: sluice.MustPolicy("gcra 5/h")}
		l := newLimiter(t, sluice.Options[call]{Namespace: "n", Group: byUser}, store,
			sluice.Rule[call]{Name: "by kind", PolicyFor: func(in call) (algo.Policy, error) { return kinds[in.write], nil }, Cost: func(in call) int64 { return in.cost }},
			sluice.Rule[call]{Name: "all", PolicyFor: func(call) (algo.Policy, error) { return kinds[false], nil }, Cost: func(in call) int64 { return in.cost }})
		reads, writes, free := call{user: "ann", cost: 2}, call{user: "ann", cost: 2, write: true}, call{user: "ann"}
		for in, during := range map[call][]int64{reads: {1, 1}, writes: {3, 1}, free: {3, 3}} {
			probe := call{user: "ann", cost: 1}
			d, _, release, err := l.Hold(background, in)
			require.True(t, must(t)(d, err).Allowed)
			require.Equal(t, during, remaining(t, l, probe))
			release()
			require.Equal(t, []int64{3, 3}, remaining(t, l, probe))
			require.Equal(t, []int64{3, 3}, remaining(t, l, call{user: "bob", cost: 1}))
		}
		require.Equal(t, int64(3), remaining(t, l, call{user: "ann", cost: 1, write: true})[0], "the rate stays charged")
	}
}

// A rule of a free call does not apply. Its Key may not have what it needs, such as the user of the call.
func TestHoldOfAFreeCallAsksForNoKey(t *testing.T) {
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{
			Name: "tasks", Spec: "inflight 1 ttl=30s", Cost: func(in call) int64 { return in.cost }, Key: func(call) string { panic("no user") },
		})
		d, held, release, err := l.Hold(background, call{})
		require.True(t, must(t)(d, err).Allowed)
		require.Empty(t, d.Results)
		require.Equal(t, background, held)
		release()
	}
}

// The context of a hold ends with the TTL at the latest, because others get the units then.
func TestHoldEndsWithTheTTLOfUnitsThatWereNotRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(time.Millisecond)
			o := sluice.Options[call]{Timeout: 20 * time.Second}
			l := newLimiter(t, o, store, rulesOf("inflight 1 ttl="+ttl.String(), "inflight 1 ttl=24h")...)
			began := time.Now()
			_, held, release, err := l.Hold(background, ann)
			require.NoError(t, err)
			time.Sleep(ttl / 4)
			store.hangs.Store(true)
			<-held.Done()
			require.LessOrEqual(t, time.Since(began), ttl)
			require.ErrorIs(t, context.Cause(held), sluice.ErrHoldLost)
			require.ErrorContains(t, context.Cause(held), `rule "rule 0" has a ttl of`)
			store.hangs.Store(false)
			release()
		})
	}
}

func TestHoldWhoseDecisionTookLongerThanTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, shadow := range []bool{false, true} {
			rules := rulesOf("inflight 1 ttl=500ms")
			rules[0].Shadow = shadow
			l := newLimiter(t, sluice.Options[call]{}, newDistantStore(600*time.Millisecond), rules...)
			d, held, release, err := l.Hold(background, ann)
			require.True(t, must(t)(d, err).Allowed)
			elapse(time.Second)
			require.Equal(t, !shadow, errors.Is(context.Cause(held), sluice.ErrHoldLost))
			release()
		}
	})
}

// A client that goes away during the decision takes no units with it.
func TestUnitsOfACallThatIsCancelledBeforeItsDecisionCanBeGivenBack(t *testing.T) {
	stores := map[string]storage.Store{"in transactions": newDistantStore(time.Second / 2), "by swaps": &slowStore{new(memory.Store), 0}}
	inBubbles(t, stores, func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{Timeout: 2 * time.Second}, store, tasks()...)
		cancelled := func() context.Context {
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx
		}
		d, held, release, err := l.Hold(cancelled(), ann)
		require.True(t, must(t)(d, err).Allowed)
		require.ErrorIs(t, held.Err(), context.Canceled)
		release()
		r, d, err := l.Reserve(cancelled(), ann, 1)
		require.True(t, must(t)(d, err).Allowed)
		must(t)(r.Settle(background, 0))
		require.Equal(t, []int64{2, 9}, remaining(t, l, ann))

		_, _, _, err = l.Hold(ended, ann)
		require.ErrorIs(t, err, storage.ErrNotApplied)
	})
}

func TestCancelledHoldStillEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, newDistantStore(100*time.Millisecond), tasks()...)
		ctx, end := context.WithTimeout(background, 70*time.Millisecond)
		defer end()
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		began := time.Now()
		_, _, _, err := l.Hold(ctx, ann)
		require.ErrorIs(t, err, storage.ErrOutcomeUnknown)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		elapse(time.Second) // the round trip ends
	})
}
