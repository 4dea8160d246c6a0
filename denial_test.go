package sluice_test

// These tests promise what a denial stores: nothing, unless the policy changes its state, or the record must be kept longer. A flood
// of denied calls costs few round trips.

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// The limit is lowered while most of it is used. The record was written with the TTL of the old limit.
func TestRetryAfterHoldsAfterALimitIsLowered(t *testing.T) {
	for _, c := range []struct {
		before, after string
		use           int64
		wait          time.Duration
	}{
		{"gcra 100/10s", "gcra 10/10s", 60, 51 * time.Second},
		{"tokenbucket 100/10s", "tokenbucket 10/10s", 60, 51 * time.Second},
		{"gcra 100/10s", "gcra 7/10s", 60, 77142858 * time.Microsecond},
		{"gcra 7/10s", "gcra 3/10s", 7, 16666667 * time.Microsecond}, // a unit has the same weight under both
		{"all(gcra 100/10s; gcra 1000/10s)", "all(gcra 10/10s; gcra 1000/10s)", 60, 51 * time.Second},
	} {
		clock := newClock()
		for name, store := range ownClock(t, clock) {
			t.Run(fmt.Sprint(c.before, " to ", c.after, " ", name), func(t *testing.T) {
				o := sluice.Options[call]{DenialCacheTTL: -1, Clock: clock.Now}
				old, lowered := newLimiter(t, o, store, rulesOf(c.before)...), newLimiter(t, o, store, rulesOf(c.after)...)
				require.True(t, must(t)(old.AllowN(background, ann, c.use)).Allowed)
				denied := must(t)(lowered.Allow(background, ann))
				require.False(t, denied.Allowed)
				require.Equal(t, c.wait, denied.RetryAfter)
				for _, part := range []time.Duration{3, 2, 1} {
					d := c.wait / 4
					clock.advance(d)
					denied = must(t)(lowered.Allow(background, ann))
					require.False(t, denied.Allowed, "%v before the end", part*d)
				}
				requireAllowedExactlyAfter(t, lowered, clock, denied.RetryAfter)
			})
		}
	}
}

// The limit of a key is lowered while a denial is cached, by another rule alone or by both.
func TestRetryAfterHoldsAfterACachedDenialUnderAHigherLimit(t *testing.T) {
	clock := newClock()
	stores := ownClock(t, clock)
	maps.Copy(stores, serverStores(t))
	for name, store := range stores {
		for i, plan := range []algo.Policy{mustPolicy("gcra 100/10s"), mustPolicy("gcra 60/10s")} {
			t.Run(fmt.Sprint(plan, " ", name), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: fmt.Sprint(i)}
				_, isServer := store.(driver.Server)
				if !isServer {
					o.Clock = clock.Now
				}
				rules := []sluice.Rule[call]{
					{Name: "plan", Key: byUser, PolicyFor: func(call) (algo.Policy, error) { return plan, nil }},
					{Name: "other", Key: byUser, Spec: "gcra 60/30s"},
				}
				l := newLimiter(t, o, store, rules...)
				must(t)(l.Charge(background, ann, 60))
				for range 2 {
					require.False(t, must(t)(l.Allow(background, ann)).Allowed)
				}
				plan = mustPolicy("gcra 10/10s")
				denied := must(t)(l.Allow(background, ann))
				require.Greater(t, denied.RetryAfter, 50*time.Second)
				if isServer {
					require.Greater(t, recordOf(t, store, o.Namespace, "plan", "gcra", "ann").TTL, denied.RetryAfter)
				} else {
					requireAllowedExactlyAfter(t, newLimiter(t, o, store, rules...), clock, denied.RetryAfter)
				}
			})
		}
	}
}

// A cost above the burst is denied for ever, even if no units are in use any more. Such a denial deletes nothing.
func TestDenialStoresNothing(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		for _, others := range [][]string{nil, {"gcra 100/h"}} {
			l := newLimiter(t, sluice.Options[call]{Clock: clock.Now, DenialCacheTTL: -1}, store, rulesOf(append([]string{"gcra 10/10s"}, others...)...)...)
			load := func(key string) storage.Version { return recordOf(t, store, "", "rule 0", "gcra", key).Version }
			require.False(t, must(t)(l.AllowN(background, call{user: "new"}, 11)).Allowed)
			require.Zero(t, load("new"), name)
			must(t)(l.Allow(background, ann))
			before := load("ann")
			require.Equal(t, time.Second, must(t)(l.AllowN(background, ann, 10)).RetryAfter)
			clock.advance(7 * time.Second)
			require.Equal(t, algo.Never, must(t)(l.AllowN(background, ann, 11)).RetryAfter, name)
			require.Equal(t, before, load("ann"), name)
			clock.advance(-7 * time.Second)
			require.NoError(t, l.Reset(background, ann))
		}
	}
}

// The servers of databases have their own clocks. So the test reads how long they keep the record.
func TestServersKeepARecordAfterALimitIsLowered(t *testing.T) {
	for name, store := range serverStores(t) {
		for i, c := range []struct{ before, after string }{
			{"gcra 100/10s", "gcra 10/10s"}, {"tokenbucket 100/10s", "tokenbucket 10/10s"}, {"gcra 7/10s", "gcra 3/10s"},
			{"all(gcra 100/10s; gcra 1000/10s)", "all(gcra 10/10s; gcra 1000/10s)"},
		} {
			t.Run(fmt.Sprint(c.before, " to ", c.after, " ", name), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: fmt.Sprint(i), DenialCacheTTL: -1}
				other := sluice.Rule[call]{Name: "other", Key: byUser, Spec: "fixedwindow 1000/h"}
				old, lowered := newLimiter(t, o, store, rulesOf(c.before)...), newLimiter(t, o, store, append(rulesOf(c.after), other)...)
				require.True(t, must(t)(old.AllowN(background, ann, 7)).Allowed)
				old.Charge(background, ann, 53)
				denied := must(t)(lowered.AllowN(background, ann, 3))
				require.False(t, denied.Allowed)
				require.Greater(t, denied.RetryAfter, 16*time.Second)
				load := func() storage.Record {
					return recordOf(t, store, o.Namespace, "rule 0", compose.Kind(mustPolicy(c.before)), "ann")
				}
				stored := load()
				require.Greater(t, stored.TTL, denied.RetryAfter)
				require.False(t, must(t)(lowered.AllowN(background, ann, 3)).Allowed)
				require.Equal(t, stored.Version, load().Version, "the second denial stores nothing")
				require.EqualValues(t, 1000, must(t)(lowered.Peek(background, ann)).Results[1].Remaining)
			})
		}
	}
}

// sleepAbout sleeps for about d, so that goroutines in a bubble of testing/synctest do not stay in step.
func sleepAbout(d time.Duration) { time.Sleep(d/2 + rand.N(d)) }

// The processes share ten slots, which they give back: no process keeps them for itself.
func TestProcessesShareWhatTheyGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, grants := newDistantStore(300*time.Microsecond), make([]int, 4)
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		var group sync.WaitGroup
		var mu sync.Mutex
		for i := range grants {
			l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 10/15d")...)
			for range 10 {
				group.Go(func() {
					for ctx.Err() == nil {
						r, d, err := l.Reserve(background, ann, 1)
						if err != nil || !d.Allowed {
							sleepAbout(10 * time.Millisecond)
							continue
						}
						mu.Lock()
						grants[i]++
						mu.Unlock()
						sleepAbout(50 * time.Millisecond)
						_, _ = r.Settle(background, 0)
					}
				})
			}
		}
		group.Wait()
		total := 0
		for _, n := range grants {
			total += n
		}
		require.Greater(t, total, 1000)
		require.Greater(t, float64(slices.Min(grants)), 0.6*float64(total)/4, fmt.Sprint(grants))
	})
}

// If nobody gives units back, a flood of denied calls costs one round trip a second, after the first second also with Reserve. This
// holds if the round trips are slow, as under the load of a flood.
func TestFloodOfDeniedCallsCostsOneRoundTripASecond(t *testing.T) {
	for _, c := range []struct {
		reserves  bool
		roundTrip time.Duration
	}{{false, 300 * time.Microsecond}, {false, 400 * time.Millisecond}, {true, 300 * time.Microsecond}} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(c.roundTrip)
			l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/15d")...)
			require.True(t, must(t)(l.Allow(background, ann)).Allowed)
			flood := func(d time.Duration) (calls int64) {
				before, end := store.trips.Load(), time.Now().Add(d)
				var group sync.WaitGroup
				for range 10 {
					group.Go(func() {
						for time.Now().Before(end) {
							if c.reserves {
								_, d, err := l.Reserve(background, ann, 1)
								require.False(t, must(t)(d, err).Allowed)
							} else {
								require.False(t, must(t)(l.Allow(background, ann)).Allowed)
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				group.Wait()
				return store.trips.Load() - before
			}
			first := flood(2 * time.Second)
			require.LessOrEqual(t, first, int64(10+20), "ten callers begin at once, and with Reserve the time doubles from a millisecond to a second")
			require.LessOrEqual(t, flood(10*time.Second), int64(10))
		})
	}
}
