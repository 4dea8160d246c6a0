package sluice_test

// These tests promise that Prepay saves round trips, admits at most Bound(x + For) in any interval x, and spends nothing that
// was not charged.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

var prepay = sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: 200 * time.Millisecond}}

func TestPrepaySavesRoundTripsForABusyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(time.Millisecond)
		l := newLimiter(t, prepay, store, rulesOf("gcra 100000/s")...)
		var prepaid, calls int64
		for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(100 * time.Microsecond) {
			d := must(t)(l.Allow(background, ann))
			require.True(t, d.Allowed)
			require.Equal(t, int64(1), d.Results[0].Paid)
			require.Equal(t, int64(1), d.Results[0].Cost)
			require.Equal(t, d.Results[0].Remaining, d.Results[0].Available+d.Results[0].Refilled-d.Results[0].Paid)
			if calls++; d.Prepaid {
				prepaid++
			}
		}
		require.Less(t, store.trips.Load(), calls/20)
		require.Greater(t, prepaid, calls*9/10)
	})
}

// Four processes call at ten times the limit.
func TestPrepayUsesTheLimitUpAndStaysWithinTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const spec, seconds = "gcra 1000/s burst=200", 10
		store := newDistantStore(time.Millisecond)
		var mu sync.Mutex
		var admitted []time.Time
		var all sync.WaitGroup
		for range 4 {
			l := newLimiter(t, prepay, store, rulesOf(spec)...)
			for range 10 {
				all.Go(func() {
					for began := time.Now(); time.Since(began) < seconds*time.Second; sleepAbout(4 * time.Millisecond) {
						if d, err := l.Allow(background, ann); assert.NoError(t, err) && d.Allowed {
							mu.Lock()
							admitted = append(admitted, time.Now())
							mu.Unlock()
						}
					}
				})
			}
		}
		all.Wait()
		require.Greater(t, len(admitted), 1000*seconds*95/100)
		policy := mustPolicy(spec)
		for first := 0; first < len(admitted); first += 7 {
			for last := first; last < len(admitted); last += 97 {
				span := admitted[last].Sub(admitted[first]) + 1
				require.LessOrEqual(t, int64(last-first+1), policy.Bound(span+prepay.Prepay.For))
			}
		}
	})
}

// A purchase is of up to Calls calls, and up to a sixteenth of the capacity, also if more calls have waited.
func TestPurchasesAreBounded(t *testing.T) {
	for capacity, calls := range map[int64]int{100_000: 5, 80: 50} {
		synctest.Test(t, func(t *testing.T) {
			o := sluice.Options[call]{Prepay: sluice.Prepay{Calls: calls, For: time.Minute}}
			l := newLimiter(t, o, newDistantStore(10*time.Millisecond), rulesOf(fmt.Sprintf("fixedwindow %d/h", capacity), "gcra 100000/s")...)
			for _, concurrent := range []int{20, 1, 10, 1, 1, 1} {
				var all sync.WaitGroup
				for range concurrent {
					all.Go(func() { assert.True(t, must(t)(l.Allow(background, ann)).Allowed) })
				}
				all.Wait()
			}
			require.LessOrEqual(t, capacity-remaining(t, l, ann)[0], int64(34+4))
		})
	}
}

func TestPurchaseAfterADenialIsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := prepay
		o.DenialCacheTTL = -1
		l := newLimiter(t, o, newDistantStore(0), rulesOf("fixedwindow 1000/h")...)
		for range 63 { // 1, 2, 4, 8, 16 and 32 calls were bought
			must(t)(l.Allow(background, ann))
		}
		time.Sleep(prepay.Prepay.For)
		must(t)(l.Charge(background, ann, 1000))
		require.False(t, must(t)(l.Allow(background, ann)).Allowed)
		must(t)(l.Refund(background, ann, 1000))
		before := remaining(t, l, ann)[0]
		must(t)(l.Allow(background, ann))
		require.EqualValues(t, 1, before-remaining(t, l, ann)[0])
	})
}

func TestKeysWithPrepaidCallsGoOnWhileTheStorePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(time.Millisecond)
		o := prepay
		o.Prepay.For = time.Second
		l := newLimiter(t, o, store, rulesOf("gcra 100000/s")...)
		for range 32 { // 1, 2, 4, 8, 16 and 32 calls were bought
			must(t)(l.Allow(background, ann))
		}
		store.hangs.Store(true)
		began := time.Now()
		for range 30 {
			require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}

func TestPrepaidCallsExpireAndAResetDropsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, prepay, &listing{faultyStore: newFaultyStore()}, rulesOf("gcra 100000/s")...)
		fill := func() {
			for range 20 { // 1, 2, 4, 8 and 16 calls were bought
				must(t)(l.Allow(background, ann))
			}
			require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
		}
		fill()
		time.Sleep(prepay.Prepay.For)
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
		fill()
		_, err := l.Allow(ended, ann)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Reset(background, call{user: "bob"}))
		require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
		require.NoError(t, l.Reset(background, ann))
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
		fill()
		require.NoError(t, l.ResetRule(background, "rule 0", ann))
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
		fill()
		_, err = l.Clear(background, "rule 0")
		require.NoError(t, err)
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
	})
}

// The time of the round trip counts, because the store may have charged the calls at its beginning.
func TestPrepaidCallsExpireAfterThePurchaseWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, prepay, newDistantStore(50*time.Millisecond), rulesOf("gcra 100000/s")...)
		for range 4 { // 1, 2 and 4 calls were bought
			must(t)(l.Allow(background, ann))
		}
		time.Sleep(prepay.Prepay.For - 51*time.Millisecond)
		require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
		time.Sleep(time.Millisecond)
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
	})
}

func TestOtherOperationsKeepPrepaidCalls(t *testing.T) {
	for name, c := range map[string]struct {
		other func(l *sluice.Limiter[call])
		costs int64
	}{
		"Refund": {func(l *sluice.Limiter[call]) { must(t)(l.Refund(background, ann, 1)) }, -1},
		"Charge": {func(l *sluice.Limiter[call]) { must(t)(l.Charge(background, ann, 1)) }, 1},
		"Settle": {func(l *sluice.Limiter[call]) { must(t)(reserveOne(t, l).Settle(background, 0)) }, 0},
		"a Charge that fails": {func(l *sluice.Limiter[call]) {
			_, err := l.Charge(ended, call{user: "bob"}, 1)
			require.Error(t, err)
		}, 0},
	} {
		l := newLimiter(t, sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: time.Minute}}, swapOnly{new(memory.Store)}, rulesOf("fixedwindow 100000/24h")...)
		for i := range 1000 {
			require.True(t, must(t)(l.Allow(background, ann)).Allowed)
			if i%10 == 5 {
				c.other(l)
			}
		}
		charged := 100_000 - remaining(t, l, ann)[0]
		require.LessOrEqual(t, charged, 1000+100*c.costs+49, name)
	}
}

// Clients choose their keys, so a process must keep little for each.
func TestLongKeysAreNotPrepaid(t *testing.T) {
	long := call{user: strings.Repeat("ann", 1000)}
	l := newLimiter(t, sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: time.Minute}}, swapOnly{new(memory.Store)}, rulesOf("gcra 100000/s")...)
	for range 100 {
		require.False(t, must(t)(l.Allow(background, long)).Prepaid)
	}
}

func TestOnlyAllowSpendsPrepaidCalls(t *testing.T) {
	store := newDistantStore(0)
	l := newLimiter(t, prepay, store, rulesOf("gcra 100000/s")...)
	for range 20 {
		must(t)(l.Allow(background, ann))
	}
	require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
	require.False(t, must(t)(l.Allow(background, call{user: "bob"})).Prepaid, "another key")
	require.False(t, must(t)(l.AllowN(background, ann, 2)).Prepaid)
	require.False(t, must(t)(l.Wait(background, ann)).Prepaid)
	require.False(t, must(t)(l.Peek(background, ann)).Prepaid)
	require.False(t, reserveOne(t, l).Decision.Prepaid)
	require.True(t, must(t)(l.Allow(background, ann)).Prepaid)

	inMemory := newLimiter(t, prepay, nil, rulesOf("gcra 100000/s")...)
	for range 20 {
		require.False(t, must(t)(inMemory.Allow(background, ann)).Prepaid)
	}
}

// The calls that wait for a purchase are told its outcome, or ask the store themselves.
func TestCallsThatWaitForAPurchase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(10 * time.Millisecond)
		o := prepay
		o.DenialCacheTTL = -1
		l := newLimiter(t, o, store, rulesOf("fixedwindow 3/h")...)
		start := func(ctx context.Context, n int) (allowed, denied, failed *atomic.Int64) {
			allowed, denied, failed = new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)
			for range n {
				go func() {
					switch d, err := l.Allow(ctx, ann); {
					case err != nil:
						failed.Add(1)
					case d.Allowed:
						allowed.Add(1)
					default:
						assert.Positive(t, d.RetryAfter)
						denied.Add(1)
					}
				}()
			}
			return allowed, denied, failed
		}
		allowed, denied, _ := start(background, 20)
		elapse(time.Second)
		require.EqualValues(t, 3, allowed.Load())
		require.EqualValues(t, 17, denied.Load())
		require.LessOrEqual(t, store.trips.Load(), int64(4))

		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond) // then the buyer gives up, and the others ask
		defer cancel()
		first, _, gone := start(ctx, 1)
		synctest.Wait()
		_, denied, _ = start(background, 3)
		elapse(time.Second)
		require.Zero(t, first.Load())
		require.EqualValues(t, 1, gone.Load())
		require.EqualValues(t, 3, denied.Load())

		store.hangs.Store(true)
		_, _, failed := start(background, 10)
		elapse(3 * time.Second)
		require.EqualValues(t, 10, failed.Load())
	})
}

func TestConcurrentCallsShareAPurchase(t *testing.T) {
	for _, p := range failurePolicies {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(10 * time.Millisecond)
			o := prepay
			o.DenialCacheTTL, o.OnFailure = -1, p
			l := newLimiter(t, o, store, rulesOf("fixedwindow 400/h")...)
			crowd := func(check func(d sluice.Decision, err error)) (decisions int64) {
				before := store.decisions.Load()
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() { check(l.Allow(background, ann)) })
				}
				all.Wait()
				return store.decisions.Load() - before
			}
			allowed := func(d sluice.Decision, err error) { assert.True(t, must(t)(d, err).Allowed) }
			crowd(allowed)
			require.LessOrEqual(t, crowd(allowed), int64(2), "as many were bought as had waited")

			before := remaining(t, l, ann)[0]
			for range 5 {
				time.Sleep(prepay.Prepay.For)
				allowed(l.Allow(background, ann))
			}
			require.LessOrEqual(t, before-remaining(t, l, ann)[0], int64(19+10), "many are bought once more, because many have waited")

			time.Sleep(prepay.Prepay.For)
			must(t)(l.Charge(background, ann, 1000))
			time.Sleep(time.Millisecond) // calls share no denial of before the charge
			require.EqualValues(t, 1, crowd(func(d sluice.Decision, err error) {
				assert.False(t, must(t)(d, err).Allowed)
				d.Results[0].Cost++ // each call has results of its own
				assert.EqualValues(t, 2, d.Results[0].Cost)
			}))

			store.hangs.Store(true)
			began := time.Now()
			require.EqualValues(t, 1, crowd(func(d sluice.Decision, err error) {
				assert.Equal(t, p == sluice.FailClosed, err != nil)
				assert.Equal(t, p == sluice.FailLocal, len(d.Results) == 1)
			}))
			require.Less(t, time.Since(began), 1100*time.Millisecond)
		})
	}
}

// slowReplies takes delay to answer after a write.
type slowReplies struct {
	*memory.Store
	delay time.Duration
}

func (s *slowReplies) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	err := s.Store.Transact(ctx, clock, updates...)
	time.Sleep(s.delay)
	return err
}

func TestDenialOfAPurchaseBeforeARefundIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowReplies{Store: new(memory.Store)}
		o := prepay
		o.MaxRoundTrips = 2
		l := newLimiter(t, o, store, rulesOf("fixedwindow 400/h")...)
		must(t)(l.Charge(background, ann, 400))
		store.delay = time.Second / 2
		go func() { assert.False(t, must(t)(l.Allow(background, ann)).Allowed) }()
		elapse(time.Millisecond)
		store.delay = 0
		must(t)(l.Refund(background, ann, 1))
		require.True(t, must(t)(l.Allow(background, ann)).Allowed)
		elapse(time.Second)
	})
}

// A client that goes away during a purchase takes no calls with it.
func TestPurchaseOfACancelledCallIsSpentByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, prepay, newDistantStore(10*time.Millisecond), rulesOf("gcra 100000/s")...)
		for range 3 { // one call, and then two
			must(t)(l.Allow(background, ann))
		}
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Millisecond, cancel)
		must(t)(l.Allow(ctx, ann))
		require.True(t, must(t)(l.Allow(background, ann)).Prepaid)
	})
}

func TestCallsDoNotShareTheDeadlineOfTheBuyer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, prepay, newDistantStore(10*time.Millisecond), rulesOf("gcra 100000/s")...)
		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
		defer cancel()
		go func() { _, _ = l.Allow(ctx, ann) }()
		elapse(time.Millisecond)
		require.True(t, must(t)(l.Allow(background, ann)).Allowed)
	})
}

// A purchase whose reply is lost may have been charged, but nothing of it is spent.
func TestNothingIsSpentAfterALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		l := newLimiter(t, prepay, store, rulesOf("gcra 100000/s")...)
		for range 16 {
			must(t)(l.Allow(background, ann))
		}
		time.Sleep(prepay.Prepay.For)
		store.err = storage.ErrUnavailable // without ErrNotApplied
		for range 5 {
			_, err := l.Allow(background, ann)
			require.Error(t, err)
		}
	})
}

func TestPrepayIsRefused(t *testing.T) {
	store := newDistantStore(0)
	for text, o := range map[string]sluice.Prepay{
		"sluice: Options.Prepay.Calls must be from 0 to 1048576, got -1":      {Calls: -1, For: time.Second},
		"sluice: Options.Prepay.Calls must be from 0 to 1048576, got 1048577": {Calls: 1<<20 + 1, For: time.Second},
		"sluice: Options.Prepay.For must be from 1ms to 1m, got 0s":           {Calls: 1},
		"sluice: Options.Prepay.For must be from 1ms to 1m, got 1m1s":         {Calls: 1, For: 61 * time.Second},
	} {
		_, err := sluice.Options[call]{Prepay: o}.New(store, rulesOf("gcra 1/s")...)
		require.EqualError(t, err, text)
	}
	_, err := prepay.New(store, rulesOf("gcra 1/s", "inflight 2 ttl=1m")...)
	require.EqualError(t, err, `sluice: rule "rule 1": Options.Prepay cannot buy units that are held; use a limiter without Prepay for this rule`)

	l := newLimiter(t, prepay, store, sluice.Rule[call]{Name: "plan", PolicyFor: func(call) (sluice.Policy, error) { return mustPolicy("inflight 2 ttl=1m"), nil }})
	_, err = l.Allow(background, ann)
	require.ErrorContains(t, err, "Options.Prepay cannot buy units that are held")
}

// A call waits for at most one purchase of another call, and a small limit is not bought ahead.
func TestPrepayDelaysNoCall(t *testing.T) {
	for _, spec := range []string{"fixedwindow 30/h", "fixedwindow 10000/h"} {
		synctest.Test(t, func(t *testing.T) {
			o := prepay
			o.MaxRoundTrips = 2
			l := newLimiter(t, o, newDistantStore(100*time.Millisecond), rulesOf(spec)...)
			for _, most := range []time.Duration{300 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond} {
				began := time.Now()
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { assert.True(t, must(t)(l.Allow(background, ann)).Allowed) })
				}
				all.Wait()
				require.LessOrEqual(t, time.Since(began), most)
			}
		})
	}
}

// The wait for the purchase of another call counts towards the timeout.
func TestPrepayKeepsTheTimeout(t *testing.T) {
	for _, p := range failurePolicies {
		for _, hangs := range []bool{true, false} { // the buyer gives up, or all that it has bought is spent
			synctest.Test(t, func(t *testing.T) {
				store := newDistantStore(900 * time.Millisecond)
				store.hangs.Store(hangs)
				o := prepay
				o.OnFailure = p
				l := newLimiter(t, o, store, rulesOf("gcra 100000/s")...)
				buyer, cancel := context.WithTimeout(background, 950*time.Millisecond)
				defer cancel()
				go func() { _, _ = l.Allow(buyer, ann) }()
				elapse(time.Millisecond)
				began := time.Now()
				d, err := l.Allow(background, ann)
				require.LessOrEqual(t, time.Since(began), sluice.DefaultTimeout+20*time.Millisecond, "the engine waits that long for an error that says more")
				require.Equal(t, p != sluice.FailClosed, d.Degraded)
				require.ErrorIs(t, errors.Join(err, d.Err), storage.ErrUnavailable)
				elapse(time.Second)
			})
		}
	}
}

// refusing is a store that takes 40ms to find that connections are refused.
type refusing struct{ storage.Store }

func (s refusing) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	select {
	case <-ctx.Done():
		return nil, time.Time{}, storage.NotApplied(ctx.Err())
	case <-time.After(40 * time.Millisecond):
		return nil, time.Time{}, errRefused
	}
}

// FailOpen decides after 50ms, and one more attempt.
func TestOnFailureAppliesSoonAfterAPurchaseThatEndedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := prepay
		o.OnFailure = sluice.FailOpen
		l := newLimiter(t, o, refusing{new(memory.Store)}, rulesOf("gcra 100000/s")...)
		buyer, cancel := context.WithTimeout(background, 49*time.Millisecond)
		defer cancel()
		go func() { _, _ = l.Allow(buyer, ann) }()
		elapse(time.Microsecond)
		began := time.Now()
		require.True(t, must(t)(l.Allow(background, ann)).Degraded)
		require.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// A purchase that comes too late is no reason to buy more.
func TestPrepayOnASlowStoreBuysLittleInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: 10 * time.Millisecond}}
		l := newLimiter(t, o, newDistantStore(15*time.Millisecond), rulesOf("fixedwindow 100000/h")...)
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				for range 50 {
					assert.True(t, must(t)(l.Allow(background, ann)).Allowed)
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, 100000-remaining(t, l, ann)[0], int64(3300))
	})
}

func TestPrepaidCallsHaveThePolicyThatBoughtThem(t *testing.T) {
	l := newLimiter(t, prepay, newDistantStore(0), sluice.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(c call) (sluice.Policy, error) {
		if c.write {
			return mustPolicy("fixedwindow 5/h"), nil
		}
		return mustPolicy("fixedwindow 1000/h"), nil
	}})
	for range 17 {
		must(t)(l.Allow(background, ann))
	}
	require.False(t, must(t)(l.Allow(background, call{user: "ann", write: true})).Allowed)
}

func TestAFailureDuringPrepayIsChargedForOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		o := prepay
		o.OnFailure = sluice.FailLocal
		l := newLimiter(t, o, store, rulesOf("fixedwindow 1000/h")...)
		for range 63 {
			must(t)(l.Allow(background, ann))
		}
		store.err = errNoTable
		time.Sleep(time.Second)
		for range 1000 {
			d := must(t)(l.Allow(background, ann))
			require.True(t, d.Degraded)
			require.True(t, d.Allowed)
			require.EqualValues(t, 1, d.Results[0].Paid)
		}
		require.False(t, must(t)(l.Allow(background, ann)).Allowed)
	})
}

// A shadow rule denies as many calls as without Prepay, and one that fails makes no round trips.
func TestShadowRulesUnderPrepay(t *testing.T) {
	broken := altered{mustPolicy("fixedwindow 100/h"), func(*algo.Result) error { return algo.ErrState }}
	rules := append(rulesOf("fixedwindow 10000/h", "fixedwindow 100/h"), sluice.Rule[call]{Name: "broken", Policy: broken})
	rules[1].Shadow, rules[2].Shadow = true, true
	store := newDistantStore(0)
	l := newLimiter(t, prepay, store, rules...)
	denied := 0
	for range 200 {
		d := must(t)(l.Allow(background, ann))
		require.Zero(t, d.RetryAfter)
		r := d.Results[1]
		require.Equal(t, r.Allowed, r.Paid == 1)
		require.Equal(t, r.Allowed, r.RetryAfter == 0)
		if !r.Allowed {
			denied++
		}
	}
	require.Equal(t, 100, denied)
	require.Less(t, store.trips.Load(), int64(50))
}

func TestPrepayWithoutRulesThatApply(t *testing.T) {
	store := newDistantStore(0)
	l := newLimiter(t, prepay, store, sluice.Rule[call]{Name: "r", PolicyFor: func(c call) (sluice.Policy, error) {
		if c.user == "eve" {
			return nil, errPlan
		}
		return nil, sluice.Skip
	}})
	_, err := l.Allow(background, call{user: "eve"})
	require.ErrorIs(t, err, errPlan)
	for range 4 {
		require.False(t, must(t)(l.Allow(background, ann)).Prepaid)
	}
	require.Zero(t, store.trips.Load())
}

func TestCallsThatWaitForAPurchaseCountForMaxQueue(t *testing.T) {
	for _, p := range failurePolicies {
		synctest.Test(t, func(t *testing.T) {
			o := prepay
			o.MaxQueue, o.OnFailure = 2, p
			l := newLimiter(t, o, newDistantStore(100*time.Millisecond), rulesOf("gcra 100000/s")...)
			for range 3 { // one buys, and the others wait for that
				go func() { assert.False(t, must(t)(l.Allow(background, ann)).Degraded) }()
				elapse(time.Millisecond)
			}
			began := time.Now()
			d, err := l.Allow(background, ann)
			require.ErrorIs(t, errors.Join(err, d.Err), storage.ErrOverloaded)
			require.Equal(t, p != sluice.FailClosed, d.Degraded)
			require.Zero(t, time.Since(began))
			elapse(time.Second)
		})
	}
}
