package sluice_test

// These tests promise when Wait and WaitN return, with which error, and that calls are allowed in the order in which they arrive.

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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

func TestWaitSleepsUntilTheCallIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/m")...)
		began := time.Now()
		for range 3 {
			require.True(t, must(t)(l.Wait(background, ann)).Allowed)
		}
		require.Equal(t, 2*time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		d, err := l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, d.Allowed)
		require.Equal(t, 2*time.Minute, time.Since(began), "it fails at once")

		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		_, err = l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2*time.Minute+time.Second, time.Since(began))
	})
}

func TestWaitAboveTheCapacityFailsAtOnce(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, nil, sluice.Rule[call]{Name: "user", Spec: "gcra 1/m", Cost: func(call) int64 { return 2 }})
	d, err := l.Wait(background, call{})
	require.EqualError(t, err, `sluice: the cost exceeds the capacity: rule "user" allows at most 1 at once, not 2: context deadline exceeded`)
	require.ErrorIs(t, err, sluice.ErrExceedsCapacity)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, algo.Never, d.RetryAfter)
}

// Wait could not release held units, and to ask too early would begin a penalty.
func TestWaitRefusesHeldUnitsAndPenalties(t *testing.T) {
	for spec, want := range map[string]string{
		"inflight 2 ttl=1m":         "Wait cannot release units that are held; use Do or Hold, and try again after a denial",
		"penalty(gcra 2/s; for=1h)": "Wait cannot be used with a penalty, because to ask too early begins one; use Allow",
	} {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/s", spec)...)
		_, err := l.Wait(background, ann)
		require.EqualError(t, err, `sluice: rule "rule 1", key "ann": `+want)
		require.Equal(t, []int64{1, 2}, remaining(t, l, ann))
	}
}

// distantStore counts round trips, which take latency, and their decisions. It hangs until the context ends while hangs is set.
type distantStore struct {
	*memory.Store
	latency          time.Duration
	trips, decisions atomic.Int64
	hangs            atomic.Bool
}

func newDistantStore(latency time.Duration) *distantStore {
	return &distantStore{Store: new(memory.Store), latency: latency}
}

func (s *distantStore) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	s.trips.Add(1)
	s.decisions.Add(int64(len(updates)))
	time.Sleep(s.latency)
	if s.hangs.Load() {
		<-ctx.Done()
		return storage.NotApplied(errors.Join(storage.ErrUnavailable, ctx.Err()))
	}
	return s.Store.Transact(ctx, clock, updates...)
}

// elapse waits until d has passed in a synctest bubble and nothing happens any more at that time.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// arrive starts waiters one after another. The returned function returns their numbers in the order in which they were allowed.
func arrive(n int, wait func(i int) error) (order func() []int) {
	var mu sync.Mutex
	var allowed []int
	for i := range n {
		go func() {
			if err := wait(i); err == nil {
				mu.Lock()
				defer mu.Unlock()
				allowed = append(allowed, i)
			}
		}()
		synctest.Wait()
	}
	return func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(allowed)
	}
}

func TestWaitServesInOrderAndACancelledCallLeavesNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(5 * time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rulesOf("gcra 1/s burst=2")...)
		must(t)(l.AllowN(background, ann, 2))
		ctx, cancel := context.WithCancel(background)
		order := arrive(6, func(i int) error {
			of, n := background, int64(1)
			switch i {
			case 0:
				of = ctx
			case 3:
				of, n = ctx, 2
			}
			_, err := l.WaitN(of, ann, n)
			return err
		})
		elapse(100 * time.Millisecond)
		asked := store.trips.Load()
		cancel()
		synctest.Wait()
		require.Equal(t, asked, store.trips.Load(), "a cancelled call costs nothing")
		elapse(4100 * time.Millisecond)
		require.Equal(t, []int{1, 2, 4, 5}, order())
	})
}

func TestManyWaitersAskTheStoreOncePerAllowedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rulesOf("gcra 100/s burst=1", "gcra 1000/s burst=1")...)
		must(t)(l.Allow(background, ann))
		ctx, cancel := context.WithCancel(background)
		var allowed atomic.Int64
		wait := func() {
			if _, err := l.Wait(ctx, ann); err == nil {
				allowed.Add(1)
			}
		}
		go wait()
		elapse(2 * time.Millisecond) // it is denied and waits
		before := store.trips.Load()
		for range 9_999 {
			go wait()
		}
		elapse(time.Second)
		require.InDelta(t, 90, allowed.Load(), 11)
		require.LessOrEqual(t, store.trips.Load()-before, allowed.Load()+1)
		cancel()
		synctest.Wait()
		require.LessOrEqual(t, store.trips.Load()-before, allowed.Load()+1, "cancelled calls cost nothing")
	})
}

// When many units come back at once, waiting calls share round trips.
func TestWaitAllowsAllCallsForWhichUnitsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(50 * time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("fixedwindow 100/m")...)
		must(t)(l.AllowN(background, ann, 100))
		order := arrive(130, func(int) error { _, err := l.Wait(background, ann); return err })
		elapse(time.Second)
		asked := store.trips.Load()
		elapse(time.Minute)
		require.Len(t, order(), 100)
		require.LessOrEqual(t, store.trips.Load()-asked, int64(5))
		elapse(time.Minute)
		require.Len(t, order(), 130)
	})
}

// A new call relies on the denial of the first one in the queue for a second at most.
func TestWaitNoticesThatUnitsCameBackEarly(t *testing.T) {
	var plan algo.Policy
	var store *distantStore
	rule := sluice.Rule[call]{Name: "user", Key: byUser, PolicyFor: func(call) (algo.Policy, error) { return plan, nil }}
	for name, giveBack := range map[string]func(l *sluice.Limiter[call]){
		"reset": func(l *sluice.Limiter[call]) { require.NoError(t, l.Reset(background, ann)) },
		"reset by another limiter": func(*sluice.Limiter[call]) {
			require.NoError(t, newLimiter(t, sluice.Options[call]{}, store, rule).Reset(background, ann))
		},
		"a larger plan": func(*sluice.Limiter[call]) { plan = mustPolicy("gcra 1/h burst=5") },
	} {
		synctest.Test(t, func(t *testing.T) {
			plan, store = mustPolicy("gcra 1/h burst=2"), newDistantStore(0)
			l := newLimiter(t, sluice.Options[call]{}, store, rule)
			must(t)(l.AllowN(background, ann, 2))
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			go func() { _, _ = l.Wait(ctx, ann) }()
			elapse(2 * time.Second)
			giveBack(l)
			short, stop := context.WithTimeout(background, 5*time.Second)
			defer stop()
			_, err := l.Wait(short, ann)
			require.NoError(t, err, name)
		})
	}
}

func TestObserverSeesEachCallOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcomes []sluice.Outcome
		o := sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) { outcomes = append(outcomes, e.Outcome) }}
		l := newLimiter(t, o, nil, rulesOf("gcra 1/h")...)
		must(t)(l.Wait(background, ann))
		ctx, cancel := context.WithCancel(background)
		go func() { _, _ = l.Wait(ctx, ann) }()
		synctest.Wait()
		require.Equal(t, []sluice.Outcome{sluice.Allowed, sluice.Denied}, outcomes)
		short, stop := context.WithTimeout(background, time.Second)
		defer stop()
		_, err := l.Wait(short, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []sluice.Outcome{sluice.Allowed, sluice.Denied, sluice.Denied}, outcomes, "also of one that did not ask the store")
		_, err = l.WaitN(background, ann, 0)
		require.Error(t, err)
		cancel()
		synctest.Wait()
		require.Equal(t, []sluice.Outcome{sluice.Allowed, sluice.Denied, sluice.Denied, sluice.Failed, sluice.Denied}, outcomes)
	})
}

// An observer delays only the call whose decision it gets.
func TestWaitingCallsDoNotWaitForASlowObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := sluice.Options[call]{Observer: func(context.Context, sluice.Event) { time.Sleep(time.Second) }}
		l := newLimiter(t, slow, nil, rulesOf("gcra 100/s burst=1")...)
		order := arrive(30, func(int) error { _, err := l.Wait(background, ann); return err })
		elapse(4 * time.Second) // one for the denial of the first call in the queue, which delays the others
		require.Len(t, order(), 30)

		l = newLimiter(t, slow, nil, rulesOf("gcra 6/m burst=1")...)
		must(t)(l.Allow(background, ann))
		ctx, cancel := context.WithCancel(background)
		order = arrive(2, func(i int) error { _, err := l.Wait([]context.Context{ctx, background}[i], ann); return err })
		elapse(8900 * time.Millisecond)
		cancel()
		elapse(1200 * time.Millisecond)
		require.Equal(t, []int{1}, order())
	})
}

func TestWaitBehindOthersFailsAtOnceIfItMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/m burst=2")...)
		must(t)(l.AllowN(background, ann, 2))
		order := arrive(1, func(int) error { _, err := l.Wait(background, ann); return err })
		elapse(10 * time.Second)

		asked, began := store.trips.Load(), time.Now()
		ctx, cancel := context.WithTimeout(background, 40*time.Second)
		defer cancel()
		d, err := l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, sluice.ErrExceedsCapacity)
		require.ErrorContains(t, err, `rule "rule 0" denies for 49.999s`)
		require.Equal(t, "rule 0", d.Rule)
		require.InDelta(t, 50*time.Second, d.RetryAfter, float64(100*time.Millisecond))
		require.Equal(t, time.Millisecond, time.Since(began))
		require.Equal(t, asked+1, store.trips.Load(), "the first call asks again, because its denial is old")

		began = time.Now()
		_, err = l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(began))
		require.Equal(t, asked+1, store.trips.Load(), "the first call asks after the deadline")

		_, err = l.WaitN(background, ann, 3)
		require.ErrorIs(t, err, sluice.ErrExceedsCapacity)
		require.LessOrEqual(t, time.Since(began), 10*time.Millisecond)

		_, err = l.WaitN(background, ann, 0)
		require.ErrorContains(t, err, "n must be at least 1")
		elapse(time.Minute)
		require.Len(t, order(), 1)
	})
}

// The first call learns that the units come back after the deadlines of all. The calls behind it need not ask.
func TestWaitingCallsGiveUpTogetherIfTheyMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(50 * time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rulesOf("gcra 1/m burst=1")...)
		must(t)(l.Allow(background, ann))
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(background, 90*time.Second+time.Duration(i)*10*time.Millisecond)
				defer cancel()
				_, err := l.Wait(ctx, ann)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			time.Sleep(100 * time.Millisecond) // the first one waits already
		}
		must(t)(l.Charge(background, ann, 1))
		asked := store.trips.Load()
		all.Wait()
		require.Less(t, time.Since(began), time.Minute+100*time.Millisecond)
		require.Equal(t, asked+1, store.trips.Load())
	})
}

// A call with a smaller cost may be allowed as soon as the call before it has given up.
func TestWaitAsksAgainAfterALargerCallGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/m burst=10")...)
		must(t)(l.AllowN(background, ann, 8))
		ctx, cancel := context.WithCancel(background)
		order := arrive(3, func(i int) error {
			of, n := background, int64(1)
			if i == 0 {
				of, n = ctx, 10
			}
			_, err := l.WaitN(of, ann, n)
			return err
		})
		elapse(time.Second)
		require.Empty(t, order())
		cancel()
		synctest.Wait()
		require.Equal(t, []int{1, 2}, order())
	})
}

// The calls behind must not give up because of the RetryAfter of a larger call that gives up itself.
func TestLargerCallThatIsDeniedBeyondItsDeadlineTakesNoOtherWithIt(t *testing.T) {
	for range 200 { // it depends on which goroutine is faster
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/s burst=50")...)
			must(t)(l.AllowN(background, ann, 50))
			order := arrive(20, func(i int) error {
				n, timeout := int64(1), 80*time.Second
				if i == 0 {
					n, timeout = 50, 60*time.Second
				}
				ctx, cancel := context.WithTimeout(background, timeout)
				defer cancel()
				_, err := l.WaitN(ctx, ann, n)
				return err
			})
			elapse(10 * time.Second)
			must(t)(l.Charge(background, ann, 49)) // after 50 s, one unit is left, and the first call would have to wait for 49 s more
			elapse(70 * time.Second)
			require.Len(t, order(), 19)
		})
	}
}

// Otherwise each call would wait until the store has failed for those before it.
func TestFailureOfTheStoreReachesAllWaitingCalls(t *testing.T) {
	for _, p := range failurePolicies {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(time.Millisecond)
			o := sluice.Options[call]{OnFailure: p, CircuitOpenAfter: -1}
			if p == sluice.FailLocal { // the queue is that of the local limiter then
				o.CircuitOpenAfter = 0
			}
			l := newLimiter(t, o, store, rulesOf("gcra 60/m burst=1")...)
			must(t)(l.Allow(background, ann))
			var ended atomic.Int64
			for range 50 {
				go func() {
					d, err := l.Wait(background, ann)
					assert.Equal(t, p == sluice.FailClosed, err != nil)
					assert.NotErrorIs(t, err, sluice.ErrExceedsCapacity)
					assert.Equal(t, p != sluice.FailClosed, d.Degraded)
					ended.Add(1)
				}()
			}
			elapse(100 * time.Millisecond)
			store.hangs.Store(true)
			elapse(3 * time.Second)
			if p == sluice.FailLocal { // it allows one a second
				require.GreaterOrEqual(t, ended.Load(), int64(1))
				elapse(2 * time.Minute)
			}
			require.EqualValues(t, 50, ended.Load())
		})
	}
}

func TestWaitHasAQueueForTheKeysOfTheEnforcedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := append(rulesOf("gcra 1/s"), sluice.Rule[call]{Name: "shadow", Key: byResource, Spec: "gcra 1/h", Shadow: true})
		store := newDistantStore(0)
		l := newLimiter(t, sluice.Options[call]{}, store, rules...)
		must(t)(l.Allow(background, ann))
		must(t)(l.Allow(background, call{user: "bob"}))
		order := arrive(4, func(i int) error {
			_, err := l.Wait(background, call{user: []string{"ann", "ann", "ann", "bob"}[i], resource: string(rune('a' + i))})
			return err
		})
		asked := store.trips.Load()
		elapse(1500 * time.Millisecond)
		require.ElementsMatch(t, []int{0, 3}, order(), "bob is in another queue")
		require.LessOrEqual(t, store.trips.Load()-asked, int64(4))
		elapse(2 * time.Second)
		require.Equal(t, []int{1, 2}, order()[2:])
	})
}

// panicsOnce returns a policy that panics while it is armed, once.
func panicsOnce(spec string) (p algo.Policy, armed *atomic.Bool) {
	armed = new(atomic.Bool)
	return altered{mustPolicy(spec), func(*algo.Result) error {
		if armed.CompareAndSwap(true, false) {
			panic("a bug of the policy")
		}
		return nil
	}}, armed
}

func TestPanicOfAPolicyDoesNotBlockTheCallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, armed := panicsOnce("gcra 1/s")
		l := newLimiter(t, sluice.Options[call]{}, nil, sluice.Rule[call]{Name: "user", Policy: policy})
		must(t)(l.Allow(background, ann))
		order := arrive(2, func(int) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New(p.(string))
				}
			}()
			_, err = l.Wait(background, ann)
			return err
		})
		armed.Store(true)
		elapse(1100 * time.Millisecond)
		require.Equal(t, []int{1}, order())
	})
}

// A call that was about to ask for units that are left, and gives up, leaves them to the next one.
func TestWaitDoesNotSleepBesideUnitsThatAreLeft(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("fixedwindow 2/h")...)
			must(t)(l.AllowN(background, ann, 2))
			ctx, cancel := context.WithCancel(background)
			order := arrive(3, func(i int) error {
				of := background
				if i == 1 {
					of = ctx
				}
				_, err := l.Wait(of, ann)
				cancel()
				return err
			})
			elapse(time.Hour + time.Second)
			require.Len(t, order(), 2, "two units came back")
			elapse(time.Hour)
		})
	}
}

// orderedStores are stores that take the same time for each decision.
func orderedStores() map[string]storage.Store {
	return map[string]storage.Store{
		"in memory":       new(memory.Store),
		"in transactions": transactor{new(memory.Store)},
		"at 3 ms":         newDistantStore(3 * time.Millisecond),
	}
}

// Units that are too few for the first call are not for those behind it, also not while it asks early, because a new call came.
func TestWaitKeepsUnitsForALargeCallThatAsks(t *testing.T) {
	inBubbles(t, orderedStores(), func(t *testing.T, store storage.Store) {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("fixedwindow 5/m")...)
		must(t)(l.AllowN(background, ann, 5))
		order := arrive(4, func(i int) error {
			time.Sleep([]time.Duration{0, time.Second, 90 * time.Second, 90*time.Second + time.Millisecond}[i])
			_, err := l.WaitN(background, ann, []int64{1, 5, 1, 1}[i])
			return err
		})
		elapse(100 * time.Second)
		require.Equal(t, []int{0}, order(), "4 units are left")
		elapse(100 * time.Second)
		require.Len(t, order(), 4)
	})
}

// If another process takes the units that are left, the calls that wait do not ask for them one after another.
func TestWaitDoesNotRelyOnUnitsThatOthersTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistantStore(5 * time.Millisecond)
		l := newLimiter(t, sluice.Options[call]{DenialCacheTTL: -1}, store, rulesOf("gcra 1/s burst=10")...)
		other := newLimiter(t, sluice.Options[call]{}, store.Store, rulesOf("gcra 1/s burst=10")...)
		must(t)(l.AllowN(background, ann, 10))
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		wait := func(int) error { _, err := l.Wait(ctx, ann); return err }
		order := arrive(2, wait)
		elapse(10 * time.Millisecond)
		require.NoError(t, other.Reset(background, ann))
		for len(order()) == 0 {
			elapse(time.Millisecond)
		}
		must(t)(other.AllowN(background, ann, 9))
		elapse(10 * time.Millisecond)
		asked := store.trips.Load()
		arrive(20, wait)
		elapse(100 * time.Millisecond)
		require.Len(t, order(), 1)
		require.Equal(t, asked, store.trips.Load())
	})
}

// Another process takes most of the units that were left. The calls that were denied get those of the next window together.
func TestWaitServesAllDeniedCallsInTheNextWindow(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(5 * time.Millisecond)
			l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("fixedwindow 5/m")...)
			other := newLimiter(t, sluice.Options[call]{}, store.Store, rulesOf("fixedwindow 5/m")...)
			must(t)(l.AllowN(background, ann, 5))
			order := arrive(5, func(int) error { _, err := l.Wait(background, ann); return err })
			for len(order()) == 0 {
				elapse(time.Millisecond)
			}
			must(t)(other.AllowN(background, ann, 3))
			elapse(10 * time.Millisecond)
			require.Len(t, order(), 2)
			elapse(time.Minute + time.Second)
			require.Len(t, order(), 5)
		})
	}
}

// After a denial, calls that always overlap still ask at the same time if units are left.
func TestWaitAsksInParallelAfterADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := func(context.Context, sluice.Event) { time.Sleep(rand.N(10 * time.Millisecond)) }
		l := newLimiter(t, sluice.Options[call]{Observer: observer}, nil, rulesOf("gcra 10000/s burst=1000")...)
		must(t)(l.AllowN(background, ann, 1000))
		must(t)(l.Charge(background, ann, 300))
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		var allowed atomic.Int64
		for range 20 {
			go func() {
				for {
					if _, err := l.Wait(ctx, ann); err != nil {
						return
					}
					allowed.Add(1)
				}
			}()
		}
		elapse(6 * time.Second)
		require.Greater(t, allowed.Load(), int64(16_000), "20 calls in 5 ms are 20000 in 5 s")
	})
}

// Goroutines that wait again and again get equal shares, in one process and in two.
func TestWaitSharesTheRateEqually(t *testing.T) {
	for _, c := range []struct {
		spec      string
		processes int
		runs      time.Duration
		longest   time.Duration // wait of a call
	}{
		{"gcra 50/s burst=1", 1, 4 * time.Second, 450 * time.Millisecond},
		{"gcra 5/s burst=1", 2, 400 * time.Second, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(300 * time.Microsecond)
			grants, began := make([]int, 20*c.processes), time.Now()
			var group sync.WaitGroup
			for p := range c.processes {
				l := newLimiter(t, sluice.Options[call]{}, store, rulesOf(c.spec)...)
				for i := range 20 {
					group.Go(func() {
						for time.Since(began) < c.runs {
							asked := time.Now()
							must(t)(l.Wait(background, ann))
							assert.LessOrEqual(t, time.Since(asked), c.longest)
							grants[20*p+i]++
						}
					})
				}
			}
			group.Wait()
			sum, squares := 0.0, 0.0
			for _, n := range grants {
				sum, squares = sum+float64(n), squares+float64(n*n)
			}
			require.Greater(t, sum*sum/squares/float64(len(grants)), 0.98, grants) // Jain's index
		})
	}
}
