package sluice_test

// These tests promise that AllowUpTo allows as many calls as fit, the same number under all rules, in one round trip.

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

func TestAllowUpToAllowsTheSameNumberUnderAllRules(t *testing.T) {
	for name, store := range memoryStores() {
		t.Run(name, func(t *testing.T) {
			rules := append(rulesOf("fixedwindow 10/h", "gcra 100/h"), sluice.Rule[call]{
				Name: "bytes", Spec: "fixedwindow 20/h", Cost: func(c call) int64 { return c.cost },
			})
			l := newLimiter(t, sluice.Options[call]{}, store, rules...)
			upTo := func(cost, n int64) (int64, sluice.Decision) {
				calls, d, err := l.AllowUpTo(background, call{user: "ann", cost: cost}, n)
				require.NoError(t, err)
				require.Equal(t, calls > 0, d.Allowed)
				return calls, d
			}
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
}

func TestAllowUpToUnderShadowRules(t *testing.T) {
	for name, store := range memoryStores() {
		t.Run(name, func(t *testing.T) {
			rules := rulesOf("fixedwindow 10/h", "fixedwindow 4/h", "fixedwindow 100/h")
			rules[1].Shadow, rules[2].Shadow = true, true
			l := newLimiter(t, sluice.Options[call]{}, store, rules...)
			calls, d, err := l.AllowUpTo(background, ann, 50)
			require.NoError(t, err)
			require.EqualValues(t, 10, calls)
			require.True(t, d.Allowed)
			require.False(t, d.Results[1].Allowed)
			require.Positive(t, d.Results[1].RetryAfter)
			require.EqualValues(t, 4, d.Results[1].Paid)
			require.EqualValues(t, 10, d.Results[2].Paid)
			require.Equal(t, []int64{0, 0, 90}, remaining(t, l, ann))

			for i := range rules {
				rules[i].Shadow = true
			}
			shadows := newLimiter(t, sluice.Options[call]{Namespace: "shadows"}, store, rules...)
			calls, _, err = shadows.AllowUpTo(background, ann, 50)
			require.NoError(t, err)
			require.EqualValues(t, 50, calls, "no rule is enforced")
			require.Equal(t, []int64{0, 0, 50}, remaining(t, shadows, ann))
		})
	}
}

func TestAllowUpToInAnOutage(t *testing.T) {
	for p, want := range map[sluice.FailurePolicy]int64{sluice.FailOpen: 50, sluice.FailLocal: 10} {
		store := newFaultyStore()
		store.err = errNoTable
		l := newLimiter(t, sluice.Options[call]{OnFailure: p}, store, rulesOf("fixedwindow 10/h")...)
		calls, d, err := l.AllowUpTo(background, ann, 50)
		require.NoError(t, err)
		require.Equal(t, want, calls)
		require.True(t, d.Degraded)
	}
	store := newFaultyStore()
	store.err = errNoTable
	calls, _, err := newLimiter(t, sluice.Options[call]{}, store, rulesOf("fixedwindow 10/h")...).AllowUpTo(background, ann, 50)
	require.ErrorIs(t, err, errNoTable)
	require.Zero(t, calls)
}

func TestDenialOfAllowUpToIsCached(t *testing.T) {
	store := newDistantStore(0)
	l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h")...)
	for range 5 {
		_, _, err := l.AllowUpTo(background, ann, 50)
		require.NoError(t, err)
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
			calls, _, err := l.AllowUpTo(background, ann, n)
			require.NoError(t, err, "%s: %d", names[i], n)
			require.Equal(t, n, calls, names[i])
			require.Equal(t, []int64{1e12 - n, 1e12 - n}, remaining(t, l, ann), names[i])
		}
	}
}

// closedPolicy denies while units are left.
type closedPolicy struct {
	algo.Policy
	closed *atomic.Bool
}

func (p closedPolicy) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	if !p.closed.Load() {
		return p.Policy.Step(dst, state, now, cost)
	}
	r, err := p.Peek(state, now, cost)
	return append(dst, state...), r, err
}

func (p closedPolicy) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	r, err := p.Policy.Peek(state, now, cost)
	if p.closed.Load() {
		r.Allowed, r.RetryAfter = false, time.Minute
	}
	return r, err
}

func TestAllowUpToAsksThePolicyAndNotOnlyWhatIsLeft(t *testing.T) {
	for name, store := range memoryStores() {
		closed := new(atomic.Bool)
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "r", Key: byUser, Policy: closedPolicy{mustPolicy("fixedwindow 10/h"), closed}})
		must(t)(l.Allow(background, ann))
		closed.Store(true)
		calls, d, err := l.AllowUpTo(background, ann, 3)
		require.NoError(t, err)
		require.Zero(t, calls, name)
		require.Equal(t, time.Minute, d.RetryAfter)
	}
}

// carefreePolicy allows everything, but its results say that nothing is left.
type carefreePolicy struct{ algo.Policy }

func (p carefreePolicy) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return append(append(dst, state...), 1), algo.Result{Allowed: true, Cost: cost, Paid: cost, ResetAfter: time.Hour}, nil
}

func (p carefreePolicy) Peek(_ []byte, _ time.Time, cost int64) (algo.Result, error) {
	return algo.Result{Allowed: true, Cost: cost}, nil
}

func TestAllowUpToAllowsTheCallThatAPolicyChargesThoughNothingIsLeft(t *testing.T) {
	for name, store := range memoryStores() {
		for shadow, want := range map[bool]int64{true: 3, false: 1} {
			l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "r", Key: byUser, Policy: carefreePolicy{mustPolicy("fixedwindow 10/h")}, Shadow: shadow})
			calls, d, err := l.AllowUpTo(background, ann, 3)
			require.NoError(t, err)
			require.Equal(t, want, calls, name)
			require.True(t, d.Allowed)
			require.Equal(t, int64(1), d.Results[0].Paid)
		}
	}
}
