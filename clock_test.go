package sluice_test

// These tests promise which clock decides, and what is admitted if clocks disagree. If the store's clock steps back, the units in
// use stay in use, and no key is locked out. A step that a caller's Clock makes is different.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// clockedStore is a store with a server clock.
type clockedStore struct {
	storage.Store
	now func() time.Time
}

func (s *clockedStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, _, err := s.Store.Load(ctx, keys...)
	return records, s.now(), err
}

// A process whose clock is ahead gets one burst early. It does not get another after each
// quiet period in which the store could drop the record: each gap is as long as the TTL.
func TestClockThatIsAheadGetsOneBurstEarly(t *testing.T) {
	for gap, specs := range map[time.Duration][]string{
		40 * time.Second: {"gcra 1/30s"},
		30*time.Minute + 10*time.Second: {
			"gcra 3/30m", "tokenbucket 3/30m", "tokenbucket 3/30m refill=interval", "fixedwindow 3/30m", "fixedwindow 3/30m align=clock",
			"all(gcra 3/30m; fixedwindow 4/30m)",
		},
		35*time.Minute + 10*time.Second: {"movingwindow 3/30m slots=6", "movingwindow 3/30m slots=6 trailing=whole"},
	} {
		for _, spec := range specs {
			clock, policy := newClock(), mustPolicy(spec)
			for name, store := range map[string]storage.Store{"swaps": swapOnly{&memory.Store{Clock: clock.Now}}, "SQLite": openSQLite(t, clock.Now)} {
				var limiters []*sluice.Limiter[call]
				for _, ahead := range []time.Duration{0, time.Hour} {
					now := func() time.Time { return clock.Now().Add(ahead) }
					limiters = append(limiters, newLimiter(t, sluice.Options[call]{Clock: now, Timeout: time.Minute}, store,
						sluice.Rule[call]{Name: "shared", Policy: policy}))
				}
				admitted, began := int64(0), clock.Now()
				for range 51 {
					for _, l := range limiters {
						for must(t)(l.Allow(background, call{})).Allowed {
							admitted++
						}
					}
					bound := policy.Bound(clock.Now().Sub(began)+1) + policy.Bound(1)
					require.LessOrEqual(t, admitted, bound, "%s on %s: a burst more than by one clock", spec, name)
					clock.advance(gap)
				}
			}
		}
	}
}

// The server keeps a record for its TTL, and longer by the time that the clock which wrote it
// is ahead.
func TestServerKeepsARecordWhileItsClockIsAhead(t *testing.T) {
	const ttl = 40 * time.Second // of a full gcra 1/30s
	for _, server := range serverStores(t) {
		for _, c := range []struct{ ahead, want time.Duration }{
			{0, ttl}, {-time.Hour, ttl}, {time.Hour, time.Hour + ttl}, {24 * 365 * time.Hour, 24*365*time.Hour + ttl},
		} {
			clock := func() time.Time { return time.Now().Add(c.ahead) }
			for _, store := range []storage.Store{server, swapOnly{server}} {
				l := newLimiter(t, sluice.Options[call]{Clock: clock, Timeout: time.Minute}, store, rulesOf("gcra 1/30s")...)
				began := time.Now()
				require.True(t, must(t)(l.Allow(background, ann)).Allowed)
				left := recordOf(t, server, "", "rule 0", "gcra", "ann").TTL
				require.LessOrEqual(t, left, c.want+time.Since(began)+time.Millisecond)
				require.GreaterOrEqual(t, left, c.want-time.Since(began)-time.Millisecond)
				require.NoError(t, l.Reset(background, ann))
			}
		}
	}
}

// swappedClock returns a clock of which every second reading is 1us before the previous one,
// like readings of concurrent goroutines that reach the store in another order.
func swappedClock() func() time.Time {
	var readings atomic.Int64
	return func() time.Time {
		n := readings.Add(1) - 1
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n^1) * time.Microsecond)
	}
}

func TestRefundByAClockThatIsBehindGivesUnitsBack(t *testing.T) {
	for _, spec := range []string{
		"gcra 10/h", "gcra 100/h burst=20", "tokenbucket 10/h", "tokenbucket 10/h refill=interval", "fixedwindow 10/h",
		"movingwindow 10/h", "movingwindow 10/h slots=6 trailing=whole", "all(gcra 10/h; fixedwindow 100/d)", "all(gcra 10/s; gcra 100/h)",
	} {
		for name, store := range memoryStores() {
			l := newLimiter(t, sluice.Options[call]{Clock: swappedClock()}, store, sluice.Rule[call]{Name: "user", Spec: spec})
			for range 100 {
				var reservations []*sluice.Reservation[call]
				for range 4 {
					reservations = append(reservations, reserve(t, l, call{}, 1))
				}
				for _, r := range reservations {
					require.NotZero(t, must(t)(r.Settle(background, 0)).Results[0].Paid, "%s, %s", spec, name)
				}
			}
			require.True(t, must(t)(l.Peek(background, call{})).Results[0].Fresh, spec)
		}
	}
}

// stepSpecs have policies of every algorithm and option.
var stepSpecs = []string{
	"gcra 100/m burst=20", "gcra 7/3s burst=5", "tokenbucket 100/m burst=20", "tokenbucket 5/30s refill=interval",
	"fixedwindow 5/m", "fixedwindow 5/m align=clock", "movingwindow 10/m", "movingwindow 9/m slots=6",
	"movingwindow 10/m slots=5 trailing=whole", "all(gcra 7/3s burst=5; fixedwindow 20/m)", "all(tokenbucket 100/m burst=20; movingwindow 9/m slots=6)",
}

// forwarding is a policy of a user: the limiter knows nothing of it but the methods of algo.Policy.
type forwarding struct{ algo.Policy }

// stepPolicies returns the policies of stepSpecs and those of a user that behave alike.
func stepPolicies() (all []algo.Policy) {
	for _, spec := range stepSpecs {
		p := mustPolicy(spec)
		if all = append(all, p); !strings.HasPrefix(spec, "all(") {
			all = append(all, forwarding{p})
		}
	}
	return all
}

// A part of a unit counts as a whole one, a debt stays a debt, and 10 s are not a step.
func TestUnitsInUseAfterAStepOfTheClock(t *testing.T) {
	for _, c := range []struct {
		spec        string
		use, charge int64
		later       time.Duration // after use
		want        int64         // in use
	}{
		{"gcra 100/m burst=20", 3, 1, 700 * time.Millisecond, 3}, // 2.83 units are in use
		{"gcra 100/m burst=20", 20, 30, 0, 50},                   // a debt
		{"tokenbucket 100/m burst=20", 3, 1, 700 * time.Millisecond, 3},
		{"tokenbucket 5/30s refill=interval", 5, 1, 29 * time.Second, 6},
		{"fixedwindow 5/m", 5, 4, 0, 9},
		{"fixedwindow 5/m align=clock", 2, 1, 0, 3},
		{"movingwindow 10/m slots=5 trailing=whole", 4, 3, 30 * time.Second, 7},
		{"movingwindow 10/m", 9, 1, 41 * time.Second, 8}, // 6.3 of the 9 units still count
	} {
		for _, policy := range []algo.Policy{mustPolicy(c.spec), forwarding{mustPolicy(c.spec)}} {
			clock := &fakeClock{time.Unix(1_700_000_017, 123_456_789)}
			l := newLimiter(t, sluice.Options[call]{}, &memory.Store{Clock: clock.Now}, sluice.Rule[call]{Name: "rule", Policy: policy})
			must(t)(l.Charge(background, ann, c.use))
			clock.advance(c.later)
			must(t)(l.Charge(background, ann, c.charge))
			clock.advance(-10 * time.Second)
			must(t)(l.Charge(background, ann, 1))
			require.Equal(t, 10*time.Second, must(t)(l.Refund(background, ann, 1)).Skew, "%+v", c)
			clock.advance(-time.Hour)
			r := must(t)(l.Peek(background, ann)).Results[0]
			require.Equal(t, r.Limit-c.want, r.Remaining, "%+v", c)
		}
	}
}

// ownClock returns the stores whose own clock is that of clock.
func ownClock(t *testing.T, clock *fakeClock) map[string]storage.Store {
	return map[string]storage.Store{
		"in memory":           &memory.Store{Clock: clock.Now},
		"in transactions":     transactor{&memory.Store{Clock: clock.Now}},
		"SQLite":              openSQLite(t, clock.Now),
		"a server with swaps": &clockedStore{&memory.Store{Clock: clock.Now}, clock.Now},
	}
}

func TestClockThatStepsBackLocksNoKeyOut(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		for _, policy := range stepPolicies() {
			for _, shadow := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", policy, " ", shadow), func(t *testing.T) {
					defer func(now time.Time) { clock.now = now }(clock.now)
					rule := sluice.Rule[call]{Name: fmt.Sprintf("%T %v %v", policy, policy, shadow), Key: byUser, Policy: policy, Shadow: shadow}
					l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rule)
					requireNoLockOut(t, l, clock)
				})
			}
		}
	}
}

// No other process has the memory of a limiter, so its states are moved although its Clock decides.
func TestClockOfALimiterWithoutAStoreLocksNoKeyOut(t *testing.T) {
	clock := newClock()
	requireNoLockOut(t, newLimiter(t, sluice.Options[call]{Clock: clock.Now}, nil, rulesOf(stepSpecs[0])...), clock)
}

// requireNoLockOut uses a key, sets the clock back, and requires that the key has the same units in use as before.
func requireNoLockOut(t *testing.T, l *sluice.Limiter[call], clock *fakeClock) {
	allow := func() sluice.RuleResult { return must(t)(l.Allow(background, ann)).Results[0] }
	burst := allow().Limit
	for range burst/2 - 1 {
		require.True(t, allow().Allowed)
	}
	clock.advance(-time.Hour)
	peeked := must(t)(l.Peek(background, ann)).Results[0]
	require.True(t, peeked.Allowed)
	require.Equal(t, burst-burst/2, peeked.Remaining, "the units in use stay in use")
	first := allow()
	require.True(t, first.Allowed)
	require.Equal(t, time.Hour, first.Skew.Round(time.Minute))
	require.Equal(t, burst-burst/2-1, first.Remaining)
	for range first.Remaining {
		r := allow()
		require.True(t, r.Allowed)
		require.Zero(t, r.Skew, "the state was moved")
	}
	denied := allow()
	require.False(t, denied.Allowed)
	require.LessOrEqual(t, denied.RetryAfter, 2*time.Minute)
	clock.advance(denied.RetryAfter - time.Microsecond)
	require.False(t, allow().Allowed)
	clock.advance(time.Microsecond)
	require.True(t, allow().Allowed)
}

// The key is used up when the clock steps back. So the first call after the step is denied, and what it promises must hold.
func TestRetryAfterIsExactAfterTheClockStepsBack(t *testing.T) {
	for _, policy := range stepPolicies() {
		clock := newClock()
		for name, store := range ownClock(t, clock) {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				rule := sluice.Rule[call]{Name: fmt.Sprintf("%T %v", policy, policy), Key: byUser, Policy: policy}
				l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rule)
				for must(t)(l.Allow(background, ann)).Allowed {
				}
				clock.advance(-time.Hour)
				peeked := must(t)(l.Peek(background, ann))
				denied := must(t)(l.Allow(background, ann))
				require.False(t, denied.Allowed)
				require.Equal(t, peeked.RetryAfter, denied.RetryAfter)
				fresh, r, err := policy.Charge(nil, nil, clock.now, denied.Results[0].Limit)
				require.NoError(t, err)
				require.Zero(t, r.Remaining)
				want, err := policy.Peek(fresh, clock.now, 1)
				require.NoError(t, err)
				require.Equal(t, want.RetryAfter, denied.RetryAfter)
				requireAllowedExactlyAfter(t, l, clock, denied.RetryAfter)
			})
		}
	}
}

// A rule that denies does not keep the state of the other rule ahead. After 12 s, when the RetryAfter has passed, a state that was not
// moved would be less than 10 s ahead and deny the call.
func TestDenialOfOneRuleAfterTheClockStepsBack(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		for i, other := range []string{"gcra 3/m", "tokenbucket 3/m", "all(gcra 3/m; fixedwindow 9/m)"} {
			for _, step := range []time.Duration{12 * time.Second, time.Hour} {
				o := sluice.Options[call]{DenialCacheTTL: -1, Namespace: fmt.Sprint(other, step)}
				l := newLimiter(t, o, store, slices.Insert(rulesOf("fixedwindow 2/5s"), i%2, sluice.Rule[call]{Name: "other", Spec: other})...)
				for range 2 {
					require.True(t, must(t)(l.Allow(background, ann)).Allowed, name)
				}
				clock.advance(-step)
				for range 2 {
					d := must(t)(l.Allow(background, ann))
					require.False(t, d.Allowed, name)
					require.Equal(t, 5*time.Second, d.RetryAfter)
					require.EqualValues(t, 1, d.Results[i%2].Remaining, "%s: %s", name, other)
				}
				requireAllowedExactlyAfter(t, l, clock, 5*time.Second)
			}
		}
	}
}

// Refunds, charges and settlements after a step use the units that were in use before it.
func TestAdjustmentsAfterTheClockStepsBack(t *testing.T) {
	for _, policy := range stepPolicies() {
		clock := newClock()
		for name, store := range ownClock(t, clock) {
			l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "rule", Key: byUser, Policy: policy})
			r, d, err := l.Reserve(background, ann, 4)
			require.NoError(t, err)
			limit := d.Results[0].Limit
			clock.advance(-time.Hour)
			require.Equal(t, limit-3, must(t)(r.Settle(background, 3)).Remaining, "%v %s", policy, name)
			clock.advance(-time.Hour)
			require.EqualValues(t, -2, must(t)(l.Charge(background, ann, limit-1)).Remaining, "%v %s: a debt", policy, name)
			clock.advance(-time.Hour)
			require.EqualValues(t, -1, must(t)(l.Refund(background, ann, 1)).Remaining, "%v %s: a debt stays a debt", policy, name)
			clock.advance(-time.Hour)
			require.True(t, must(t)(l.Refund(background, ann, 100)).Results[0].Remaining == limit, "%v %s", policy, name)
		}
	}
}

// The bound: in the time that has really passed, a step back admits nothing more than without it, and a step forward one burst
// more. With align=clock each step can admit another burst, because the clock can reach the end of the window earlier.
func TestStepsOfTheClockAdmitAtMostABurstEach(t *testing.T) {
	for i, policy := range stepPolicies() {
		for run := range 40 {
			random := rand.New(rand.NewPCG(uint64(i), uint64(run)))
			clock := newClock()
			l := newLimiter(t, sluice.Options[call]{}, &memory.Store{Clock: clock.Now}, sluice.Rule[call]{Name: "rule", Key: byUser, Policy: policy})
			burst := must(t)(l.Peek(background, ann)).Results[0].Limit
			admitted, elapsed, back, forward := int64(0), time.Duration(0), int64(0), int64(0)
			for range 300 {
				switch random.IntN(12) {
				case 0:
					clock.advance(-10*time.Second - time.Duration(random.Int64N(int64(time.Hour))))
					back++
				case 1:
					clock.advance(-time.Duration(random.Int64N(int64(11 * time.Second))))
					back++
				case 2:
					if run%2 == 0 {
						clock.advance(time.Duration(random.Int64N(int64(time.Hour))))
						forward++
					}
				case 3, 4, 5:
					d := time.Duration(random.Int64N(int64(10 * time.Second)))
					clock.advance(d)
					elapsed += d
				case 6:
					for must(t)(l.Allow(background, ann)).Allowed {
						admitted++
					}
				default:
					n := random.Int64N(3) + 1
					d := must(t)(l.AllowN(background, ann, n))
					if d.Allowed {
						admitted += n
					}
					require.LessOrEqual(t, d.RetryAfter, 2*time.Minute+10*time.Second, "%v, run %d: no policy needs more than 2m", policy, run)
				}
				bound := policy.Bound(elapsed+1) + forward*burst
				if strings.Contains(policy.String(), "align=clock") {
					bound += (back + forward) * burst
				}
				require.LessOrEqual(t, admitted, bound, "%v, run %d: %d steps back and %d forward in %v", policy, run, back, forward, elapsed)
			}
		}
	}
}

// Each limiter with a Clock of its own must find the states as they are: with two clocks, moved states could admit without bound. So
// a clock that is ahead denies the calls of others, and shows as skew.
func TestClocksOfCallersDoNotMoveStates(t *testing.T) {
	clock := newClock()
	for name, store := range ownClock(t, clock) {
		at := func(ahead time.Duration) *sluice.Limiter[call] {
			now := func() time.Time { return clock.Now().Add(ahead) }
			return newLimiter(t, sluice.Options[call]{Clock: now, MaxSkew: time.Minute}, store, rulesOf("gcra 3/m")...)
		}
		ahead, behind := at(time.Hour), at(0)
		silent := newLimiter(t, sluice.Options[call]{Clock: clock.Now}, store, rulesOf("gcra 3/m")...)
		for range 3 {
			d := must(t)(ahead.Allow(background, ann))
			require.True(t, d.Allowed, name)
			require.NoError(t, d.Err)
		}
		for range 10 {
			d := must(t)(behind.Allow(background, ann))
			require.False(t, d.Allowed, name)
			require.ErrorIs(t, d.Err, sluice.ErrSkew)
			require.Equal(t, time.Hour, d.Skew, name)
			require.Equal(t, time.Hour+20*time.Second, d.RetryAfter, name)
			require.False(t, must(t)(ahead.Allow(background, ann)).Allowed, name)
			require.NoError(t, must(t)(silent.Allow(background, ann)).Err, "without MaxSkew")
		}
	}
}

// After a failover, a server has the states that another one wrote whose clock was ahead. A limiter with a Clock writes them here.
func TestServerWhoseClockIsBehindLocksNoKeyOut(t *testing.T) {
	hourAhead := func() time.Time { return time.Now().Add(time.Hour) }
	for name, store := range serverStores(t) {
		for i, policy := range slowPolicies() {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: fmt.Sprint(i), Timeout: time.Minute}
				rules := []sluice.Rule[call]{
					{Name: "rule", Key: byUser, Policy: policy},
					{Name: "other", Key: byUser, Spec: "fixedwindow 1000/h"},
				}
				own := newLimiter(t, o, store, rules...)
				o.Clock = hourAhead
				before := newLimiter(t, o, store, rules...)
				require.True(t, must(t)(before.AllowN(background, ann, 4)).Allowed)

				d := must(t)(own.AllowN(background, ann, 2))
				require.True(t, d.Allowed)
				require.True(t, d.Results[0].Allowed)
				require.EqualValues(t, 4, d.Results[0].Remaining)
				require.Equal(t, time.Hour, d.Skew.Round(time.Minute))
				require.EqualValues(t, 994, d.Results[1].Remaining)
				for i := range 3 {
					peeked := must(t)(own.PeekN(background, ann, 5))
					d = must(t)(own.AllowN(background, ann, 5))
					require.False(t, d.Allowed)
					require.True(t, i == 1 || d.Cached == (i == 2), "a cached denial comes from a state that is not ahead")
					r := d.Results[0]
					require.False(t, r.Allowed)
					require.Greater(t, r.RetryAfter, time.Minute)
					require.LessOrEqual(t, r.RetryAfter, 20*time.Minute)
					require.InDelta(t, r.RetryAfter, peeked.Results[0].RetryAfter, float64(time.Minute))
				}
				require.Less(t, recordOf(t, store, o.Namespace, "rule", compose.Kind(policy), "ann").TTL, time.Hour)
			})
		}
	}
}

// Many callers find a state that is ahead at the same moment. They share exactly the units that were left.
func TestCallersShareAStateThatIsAhead(t *testing.T) {
	for name, store := range serverStores(t) {
		for i, policy := range slowPolicies() {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: fmt.Sprint("shared ", i), Timeout: time.Minute}
				rules := []sluice.Rule[call]{
					{Name: "rule", Key: byUser, Policy: policy},
					{Name: "other", Spec: "gcra 1000/h"}, // one key for all
				}
				ahead := o
				ahead.Clock = func() time.Time { return time.Now().Add(time.Hour) }
				require.True(t, must(t)(newLimiter(t, ahead, store, rules...).AllowN(background, ann, 4)).Allowed)
				var allowed atomic.Int64
				var group sync.WaitGroup
				for range 2 {
					l := newLimiter(t, o, store, rules...)
					for range 8 {
						group.Go(func() {
							for range 3 {
								if d, err := l.Allow(background, ann); err != nil {
									t.Error(err)
								} else if d.Allowed {
									allowed.Add(1)
								}
							}
						})
					}
				}
				group.Wait()
				require.EqualValues(t, 6, allowed.Load())
				d := must(t)(newLimiter(t, o, store, rules...).Peek(background, ann))
				require.EqualValues(t, 990, d.Results[1].Remaining, "each allowed call is charged once under every rule")
			})
		}
	}
}

// slowPolicies have 10 units, and get no unit back while a test runs.
func slowPolicies() []algo.Policy {
	return []algo.Policy{
		mustPolicy("gcra 10/20m"), mustPolicy("tokenbucket 10/20m"), mustPolicy("tokenbucket 10/20m refill=interval"), mustPolicy("fixedwindow 10/20m"),
		mustPolicy("movingwindow 10/10m"), mustPolicy("movingwindow 10/10m slots=5 trailing=whole"),
		mustPolicy("all(gcra 10/20m; fixedwindow 100/20m)"), forwarding{mustPolicy("gcra 10/20m")},
	}
}

// After the store's clock has stepped back, nobody is locked out for longer than the penalty, and then for the window.
func TestPenaltyAfterTheClockOfTheStoreStepsBack(t *testing.T) {
	for _, begins := range []bool{false, true} {
		clock := newClock()
		l := newLimiter(t, sluice.Options[call]{}, &memory.Store{Clock: clock.Now}, rulesOf("penalty(fixedwindow 3/15min; for=1h)")...)
		must(t)(l.AllowN(background, ann, 3))
		if begins {
			require.False(t, must(t)(l.Allow(background, ann)).Allowed)
		}
		clock.advance(-300 * time.Hour)
		d := must(t)(l.Allow(background, ann))
		require.False(t, d.Allowed)
		require.Equal(t, time.Hour, d.RetryAfter)
		clock.advance(time.Hour)
		require.True(t, must(t)(l.Allow(background, ann)).Allowed)
	}
}
