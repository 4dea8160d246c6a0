package sluice_test

// These tests promise that AllowUpTo allows as many calls as fit, the same number under all rules, in one round trip.

import (
	"errors"
	"fmt"
	"math"
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
)

// The evaluation of a cached denial leaves the cost of one call to the local limiter.
func TestAllowUpToAfterACachedDenialInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 10/s burst=5")...)
		must(t)(l.AllowN(background, ann, 5))
		require.False(t, must(t)(l.Allow(background, ann)).Allowed)
		time.Sleep(time.Second / 2)
		store.err = errNoTable
		calls, d := allowUpTo(t, l, ann, 3)
		require.True(t, d.Degraded)
		require.EqualValues(t, 3, calls)
	})
}

// allowUpTo allows up to n calls, without an error.
func allowUpTo(t *testing.T, l *sluice.Limiter[call], in call, n int64) (int64, sluice.Decision) {
	t.Helper()
	calls, d, err := l.AllowUpTo(background, in, n)
	require.NoError(t, err)
	require.Equal(t, calls > 0, d.Allowed)
	return calls, d
}

func TestAllowUpToAllowsTheSameNumberUnderAllRules(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		rules := append(rulesOf("fixedwindow 10/h", "gcra 100/h"), sluice.Rule[call]{
			Name: "bytes", Spec: "fixedwindow 20/h", Cost: func(c call) int64 { return c.cost },
		})
		l := newLimiter(t, sluice.Options[call]{}, store, rules...)
		upTo := func(cost, n int64) (int64, sluice.Decision) { return allowUpTo(t, l, call{user: "ann", cost: cost}, n) }
		calls, d := upTo(3, 100)
		require.EqualValues(t, 6, calls, "the bytes allow 6")
		require.Zero(t, d.RetryAfter)
		for i, paid := range []int64{6, 6, 18} {
			require.Equal(t, paid, d.Results[i].Paid)
			require.Equal(t, paid, d.Results[i].Cost)
		}
		calls, d = upTo(3, 1)
		require.Zero(t, calls)
		require.Equal(t, "bytes", d.Rule)
		require.Positive(t, d.RetryAfter)
		require.Equal(t, int64(3), d.Results[2].Cost, "it is the denial of one call")

		calls, _ = upTo(0, 3)
		require.EqualValues(t, 3, calls)
		calls, _ = upTo(1, math.MaxInt64)
		require.EqualValues(t, 1, calls, "the first rule allows 1 more")
		calls, d = upTo(21, 1)
		require.Zero(t, calls)
		require.Equal(t, algo.Never, d.RetryAfter)
		require.Equal(t, []int64{0, 90, 1}, remaining(t, l, call{user: "ann", cost: 1}))
	})
}

func TestAllowUpToUnderShadowRules(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		rules := rulesOf("fixedwindow 10/h", "fixedwindow 4/h", "fixedwindow 100/h")
		rules[1].Shadow, rules[2].Shadow = true, true
		l := newLimiter(t, sluice.Options[call]{}, store, rules...)
		calls, d := allowUpTo(t, l, ann, 50)
		require.EqualValues(t, 10, calls)
		require.False(t, d.Results[1].Allowed)
		require.Positive(t, d.Results[1].RetryAfter)
		require.EqualValues(t, 4, d.Results[1].Paid)
		require.EqualValues(t, 10, d.Results[2].Paid)
		require.Equal(t, []int64{0, 0, 90}, remaining(t, l, ann))

		for i := range rules {
			rules[i].Shadow = true
		}
		shadows := newLimiter(t, sluice.Options[call]{Namespace: "shadows"}, store, rules...)
		calls, _ = allowUpTo(t, shadows, ann, 50)
		require.EqualValues(t, 50, calls, "no rule is enforced")
		require.Equal(t, []int64{0, 0, 50}, remaining(t, shadows, ann))
	})
}

func TestAllowUpToInAnOutage(t *testing.T) {
	for p, want := range map[sluice.FailurePolicy]int64{sluice.FailClosed: 0, sluice.FailOpen: 50, sluice.FailLocal: 10} {
		l := newLimiter(t, sluice.Options[call]{OnFailure: p}, &faultyStore{err: errNoTable}, rulesOf("fixedwindow 10/h")...)
		calls, d, err := l.AllowUpTo(background, ann, 50)
		require.Equal(t, want, calls)
		require.Equal(t, p != sluice.FailClosed, d.Degraded)
		require.ErrorIs(t, errors.Join(err, d.Err), errNoTable)
		require.Equal(t, p == sluice.FailClosed, err != nil)
	}
}

func TestDenialOfAllowUpToIsCached(t *testing.T) {
	store := newDistantStore(0)
	l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h")...)
	for range 5 {
		allowUpTo(t, l, ann, 50)
	}
	require.LessOrEqual(t, store.trips.Load(), int64(2))
}

// Callers that share a store never get more together than the limit, and leave nothing of it.
func TestConcurrentAllowUpToUsesTheLimitUp(t *testing.T) {
	names, stores := allStores(t, time.Now)
	for i, store := range stores {
		var total atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			l := newLimiter(t, sluice.Options[call]{Namespace: "up to", Timeout: time.Minute}, store, rulesOf("fixedwindow 1000/h", "gcra 2000/d")...)
			for range 4 {
				all.Go(func() {
					for n := int64(1); ; n = n%37 + 1 {
						calls, _, err := l.AllowUpTo(background, ann, n)
						if !assert.NoError(t, err) || calls == 0 {
							return
						}
						total.Add(calls)
					}
				})
			}
		}
		all.Wait()
		require.EqualValues(t, 1000, total.Load(), names[i])
	}
}

// The sum of what two rules charge does not fit into 32 bits.
func TestAllowUpToWithALargeNumber(t *testing.T) {
	names, stores := allStores(t, time.Now)
	for i, store := range stores {
		for _, n := range []int64{1 << 30, math.MaxInt32, math.MaxInt32 + 1} {
			o := sluice.Options[call]{Namespace: fmt.Sprint("large ", n), Timeout: time.Minute}
			l := newLimiter(t, o, store, rulesOf("fixedwindow 1000000000000/h", "fixedwindow 1000000000000/d")...)
			calls, _ := allowUpTo(t, l, ann, n)
			require.Equal(t, n, calls, names[i])
			require.Equal(t, []int64{1e12 - n, 1e12 - n}, remaining(t, l, ann), names[i])
		}
	}
}

func TestAllowUpToAsksThePolicyAndNotOnlyWhatIsLeft(t *testing.T) {
	for name, store := range memoryStores() {
		closed := false
		policy := altered{mustPolicy("fixedwindow 10/h"), func(r *algo.Result) error {
			if closed { // it denies while units are left
				r.Allowed, r.RetryAfter = false, time.Minute
			}
			return nil
		}}
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "r", Key: byUser, Policy: policy})
		must(t)(l.Allow(background, ann))
		closed = true
		calls, d := allowUpTo(t, l, ann, 3)
		require.Zero(t, calls, name)
		require.Equal(t, time.Minute, d.RetryAfter)
	}
}

func TestAllowUpToAllowsTheCallThatAPolicyChargesThoughNothingIsLeft(t *testing.T) {
	carefree := altered{mustPolicy("fixedwindow 10/h"), func(r *algo.Result) error { r.Remaining = 0; return nil }}
	for name, store := range memoryStores() {
		for shadow, want := range map[bool]int64{true: 3, false: 1} {
			l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: fmt.Sprint(shadow), Key: byUser, Policy: carefree, Shadow: shadow})
			calls, d := allowUpTo(t, l, ann, 3)
			require.Equal(t, want, calls, name)
			require.Equal(t, int64(1), d.Results[0].Paid)
		}
	}
}
