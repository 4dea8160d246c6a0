package compose_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/tokenbucket"
)

// call is the input of the limiters below.
type call struct {
	user, resource string
	cost           int64
	write          bool
}

func limitOf(t testing.TB, spec string) algo.Policy {
	t.Helper()
	p, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	return p
}

// virtual is a clock that moves when it is told to.
type virtual struct{ now time.Time }

func newVirtual() *virtual                 { return &virtual{time.Unix(1e9, 0)} }
func (v *virtual) Now() time.Time          { return v.now }
func (v *virtual) advance(d time.Duration) { v.now = v.now.Add(d) }

func byUser(c call) string     { return c.user }
func byResource(c call) string { return c.resource }

var background = context.Background()

func must(t *testing.T, d compose.Decision, err error) compose.Decision {
	t.Helper()
	require.NoError(t, err)
	return d
}

func TestAllRulesOrNone(t *testing.T) {
	clock := newVirtual()
	l, err := compose.Options[call]{Clock: clock.Now}.New(nil,
		compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 2/m")},
		compose.Rule[call]{Name: "resource", Key: byResource, Policy: limitOf(t, "gcra 3/m")})
	require.NoError(t, err)
	allow := func(user, resource string) compose.Decision {
		t.Helper()
		d, err := l.Allow(background, call{user: user, resource: resource})
		return must(t, d, err)
	}
	require.True(t, allow("ann", "r").Allowed)
	require.True(t, allow("ann", "r").Allowed)

	denied := allow("ann", "r")
	require.False(t, denied.Allowed)
	require.Equal(t, "user", denied.Rule)
	require.Equal(t, 30*time.Second, denied.RetryAfter)
	require.Zero(t, denied.Results[0].Paid)
	require.Zero(t, denied.Results[1].Paid, "a denial costs nothing under the other rule")
	require.EqualValues(t, 1, denied.Results[1].Remaining)

	last := allow("bob", "r")
	require.True(t, last.Allowed)
	require.Equal(t, "resource", last.Rule)
	require.Zero(t, last.Remaining)
	require.Equal(t, "resource", allow("bob", "r").Rule)

	clock.advance(20 * time.Second) // one unit of the resource is back, none of ann
	require.Equal(t, "user", allow("ann", "r").Rule)
	require.True(t, allow("bob", "r").Allowed)
}

func TestRulesInAnyOrderShareKeysAndLimits(t *testing.T) {
	same := limitOf(t, "gcra 2/m")
	l, err := compose.New(nil,
		compose.Rule[call]{Name: "a", Key: byUser, Policy: same},
		compose.Rule[call]{Name: "b", Key: byUser, Policy: same},
		compose.Rule[call]{Name: "everyone", Policy: same})
	require.NoError(t, err)
	d, err := l.AllowN(background, call{user: "ann"}, 2)
	require.True(t, must(t, d, err).Allowed)
	d, err = l.Allow(background, call{user: "bob"})
	require.Equal(t, "everyone", must(t, d, err).Rule)
}

func TestRulesAreToldInTheirOrder(t *testing.T) {
	p := limitOf(t, "gcra 1/s")
	l, err := compose.New(nil, compose.Rule[call]{Name: "b", Policy: p}, compose.Rule[call]{Name: "a", Policy: p})
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a"}, l.Rules())
}

func TestPolicyForAndCost(t *testing.T) {
	l, err := compose.New(nil,
		compose.Rule[call]{
			Name: "plan",
			Key:  byUser,
			PolicyFor: func(c call) (algo.Policy, error) {
				if c.user == "root" {
					return nil, compose.Skip // not limited
				}
				if c.write {
					return limitOf(t, "gcra 2/m"), nil
				}
				return limitOf(t, "gcra 10/m"), nil
			},
			Cost: func(c call) int64 { return c.cost },
		})
	require.NoError(t, err)
	ask := func(c call) (compose.Decision, error) { return l.Allow(background, c) }

	d, err := ask(call{user: "root", cost: 100})
	require.True(t, must(t, d, err).Allowed)
	require.Empty(t, d.Results)
	d, err = ask(call{user: "ann", cost: 0})
	require.True(t, must(t, d, err).Allowed)
	require.Empty(t, d.Results, "free under this rule")
	d, err = ask(call{user: "ann", cost: 3, write: true})
	require.Equal(t, algo.Never, must(t, d, err).RetryAfter)
	d, err = ask(call{user: "ann", cost: 3})
	require.True(t, must(t, d, err).Allowed)
	require.EqualValues(t, 7, d.Remaining)
	d, err = ask(call{user: "ann", cost: 1, write: true})
	require.False(t, must(t, d, err).Allowed, "what was used stays used under another plan")

	_, err = ask(call{user: "ann", cost: -1})
	require.ErrorIs(t, err, algo.ErrCost)
	_, err = l.AllowN(background, call{user: "ann", cost: 1}, 0)
	require.ErrorIs(t, err, algo.ErrCost)
	d, err = l.AllowN(background, call{user: "ann", cost: 1 << 40}, 1<<40)
	require.Equal(t, algo.Never, must(t, d, err).RetryAfter, "a product beyond 64 bits is more than any capacity")
}

func TestShadowRulesDenyNothing(t *testing.T) {
	l, err := compose.New(nil,
		compose.Rule[call]{Name: "on", Key: byUser, Policy: limitOf(t, "gcra 3/m")},
		compose.Rule[call]{Name: "trial", Key: byUser, Policy: limitOf(t, "gcra 1/m"), Shadow: true})
	require.NoError(t, err)
	ask := func() compose.Decision {
		d, err := l.Allow(background, call{user: "ann"})
		return must(t, d, err)
	}
	require.True(t, ask().Results[1].Allowed)
	second := ask()
	require.True(t, second.Allowed)
	require.False(t, second.Results[1].Allowed)
	require.True(t, second.Results[1].Shadow)
	require.Equal(t, "on", second.Rule)
	require.Zero(t, second.RetryAfter)
	ask()
	require.False(t, ask().Allowed)
}

func TestPeekRefundChargeReset(t *testing.T) {
	clock := newVirtual()
	l, err := compose.Options[call]{Clock: clock.Now}.New(nil,
		compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 5/m")})
	require.NoError(t, err)
	ann := call{user: "ann"}
	left := func() int64 {
		d, err := l.Peek(background, ann)
		return must(t, d, err).Remaining
	}
	require.EqualValues(t, 5, left())
	d, err := l.AllowN(background, ann, 4)
	require.True(t, must(t, d, err).Allowed)
	require.EqualValues(t, 1, left())
	d, err = l.Refund(background, ann, 2)
	require.EqualValues(t, -2, must(t, d, err).Results[0].Paid)
	require.EqualValues(t, 3, left())
	d, err = l.Charge(background, ann, 5)
	require.EqualValues(t, 5, must(t, d, err).Results[0].Paid)
	require.EqualValues(t, -2, left())
	d, err = l.Allow(background, ann)
	require.Equal(t, 36*time.Second, must(t, d, err).RetryAfter)
	require.NoError(t, l.Reset(background, ann))
	require.EqualValues(t, 5, left())
	d, err = l.Refund(background, ann, 9)
	require.Zero(t, must(t, d, err).Results[0].Paid)
}

func TestReserveAndSettle(t *testing.T) {
	clock := newVirtual()
	l, err := compose.Options[call]{Clock: clock.Now}.New(nil,
		compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 10/m")})
	require.NoError(t, err)
	ann := call{user: "ann"}
	for _, c := range []struct{ estimate, actual, left int64 }{{4, 1, 9}, {4, 4, 5}, {2, 9, -4}} {
		r, _, err := l.Reserve(background, ann, c.estimate)
		require.NoError(t, err)
		_, err = r.Settle(background, -1)
		require.Error(t, err)
		_, err = r.Settle(background, c.actual)
		require.NoError(t, err)
		_, err = r.Settle(background, c.actual)
		require.ErrorIs(t, err, compose.ErrSettled)
		d, err := l.Peek(background, ann)
		require.Equal(t, c.left, must(t, d, err).Remaining)
	}
	r, d, err := l.Reserve(background, ann, 1)
	require.False(t, must(t, d, err).Allowed)
	require.Nil(t, r)
}

func TestWaitSleepsUntilItIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := compose.New(nil, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")})
		require.NoError(t, err)
		began := time.Now()
		for range 3 {
			d, err := l.Wait(background, call{user: "ann"})
			require.True(t, must(t, d, err).Allowed)
		}
		require.Equal(t, 2*time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		d, err := l.Wait(ctx, call{user: "ann"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, d.Allowed)
		require.Equal(t, 2*time.Minute, time.Since(began), "it fails at once")

		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		_, err = l.Wait(ctx, call{user: "ann"})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2*time.Minute+time.Second, time.Since(began))
	})
}

func TestWaitForWhatNeverComesFailsAtOnce(t *testing.T) {
	l, err := compose.New(nil, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/m"), Cost: func(call) int64 { return 2 }})
	require.NoError(t, err)
	d, err := l.Wait(background, call{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, algo.Never, d.RetryAfter)
}

// down is a store that cannot be reached.
type down struct{ err error }

func (s down) Load(context.Context, ...string) ([]storage.Record, error) { return nil, s.err }
func (s down) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	return nil, false, s.err
}

func TestFailurePolicies(t *testing.T) {
	outage := storage.NotApplied(fmt.Errorf("%w: no route", storage.ErrUnavailable))
	rule := compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m"), Cost: func(c call) int64 { return c.cost }}
	synctest.Test(t, func(t *testing.T) {
		ask := func(p compose.FailurePolicy, calls int, cost int64) (d compose.Decision, err error) {
			l, err := compose.Options[call]{OnFailure: p, Timeout: time.Second}.New(down{outage}, rule)
			require.NoError(t, err)
			for range calls {
				d, err = l.Allow(background, call{user: "ann", cost: cost})
			}
			return d, err
		}
		d, err := ask(compose.FailClosed, 1, 1)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.False(t, d.Allowed)

		d, err = ask(compose.FailOpen, 2, 1)
		require.True(t, must(t, d, err).Allowed)
		require.True(t, d.Degraded)
		require.ErrorIs(t, d.Err, storage.ErrUnavailable)

		d, err = ask(compose.FailLocal, 1, 1)
		require.True(t, must(t, d, err).Allowed)
		require.True(t, d.Degraded)
		d, err = ask(compose.FailLocal, 2, 1)
		require.False(t, must(t, d, err).Allowed)
		require.True(t, d.Degraded)
		require.ErrorIs(t, d.Err, storage.ErrUnavailable)

		for _, p := range []compose.FailurePolicy{compose.FailOpen, compose.FailLocal} {
			d, err = ask(p, 1, -1)
			require.ErrorIs(t, err, algo.ErrCost, "the caller's own mistakes fail closed")
			require.False(t, d.Allowed)
		}
	})
}

// A lone caller pays the wait once. Then the circuit breaker is open, and a probe in the background finds
// out when the store is back.
func TestOnFailureAppliesAtOnceInALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silent{Store: swapOnly{new(memory.Store)}, is: true}
		l, err := compose.Options[call]{OnFailure: compose.FailLocal}.New(
			store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")})
		require.NoError(t, err)
		wait := func(user string) time.Duration {
			began := time.Now()
			d, err := l.Allow(background, call{user: user})
			require.True(t, must(t, d, err).Allowed)
			require.True(t, d.Degraded)
			require.ErrorIs(t, d.Err, storage.ErrUnavailable)
			return time.Since(began)
		}
		require.Equal(t, time.Second, wait("ann"), "the timeout")
		for i := range 7 {
			require.Zero(t, wait(fmt.Sprint("user ", i)))
		}
		synctest.Wait()
		store.is = false
		time.Sleep(2 * time.Second)
		require.Zero(t, wait("eve"), "no caller probes")
		synctest.Wait()
		d, err := l.Allow(background, call{user: "bob"})
		require.True(t, must(t, d, err).Allowed)
		require.False(t, d.Degraded)
	})
}

func TestCanceledCallsFailClosed(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	l, err := compose.Options[call]{OnFailure: compose.FailOpen}.New(nil, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/m")})
	require.NoError(t, err)
	d, err := l.Allow(ctx, call{})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, d.Allowed)
}

func TestStateOfAnotherAlgorithmIsAnErrorThatNamesTheRuleAndTheRemedy(t *testing.T) {
	store := new(memory.Store)
	for i, spec := range []string{"gcra 5/m", "fixedwindow 5/m", "all(gcra 5/m; gcra 9/h)", "all(gcra 5/m; gcra 9/h; gcra 20/d)"} {
		l, err := compose.New(store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, spec)})
		require.NoError(t, err)
		_, err = l.Allow(background, call{user: "ann"})
		if i == 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, algo.ErrState)
		require.ErrorContains(t, err, `compose: rule "user", key "ann": algo: not a state of this policy; `)
		require.ErrorContains(t, err, "give it a new name, or Reset the key")
		require.NoError(t, l.Reset(background, call{user: "ann"}))
		_, err = l.Allow(background, call{user: "ann"})
		require.NoError(t, err)
	}
}

func TestNamespacesDoNotMeet(t *testing.T) {
	store := new(memory.Store)
	rule := compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")}
	ask := func(namespace string) bool {
		l, err := compose.Options[call]{Namespace: namespace}.New(store, rule)
		require.NoError(t, err)
		d, err := l.Allow(background, call{user: "ann"})
		return must(t, d, err).Allowed
	}
	require.True(t, ask("a"))
	require.False(t, ask("a"), "the same limiter in another process shares the use")
	require.True(t, ask("b"))
}

func TestHostileKeysNeitherCollideNorFailOpen(t *testing.T) {
	l, err := compose.New(nil, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")})
	require.NoError(t, err)
	long := strings.Repeat("x", 100<<10)
	for _, key := range []string{"", "\x00", "\x00\x00", "\xff", "{", "{a}", "a:b", "a", "b", long, long + "y"} {
		for i := range 2 {
			d, err := l.Allow(background, call{user: key})
			require.Equal(t, i == 0, must(t, d, err).Allowed, "%.20q", key)
		}
	}
}

func TestObserverIsToldOfEveryDecision(t *testing.T) {
	var events []compose.Event
	l, err := compose.Options[call]{Observer: func(e compose.Event) { events = append(events, e) }}.New(nil,
		compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m"), Cost: func(c call) int64 { return c.cost }})
	require.NoError(t, err)
	for _, cost := range []int64{1, 1, -1} {
		_, _ = l.Allow(background, call{user: "ann", cost: cost})
	}
	require.Len(t, events, 3)
	require.Equal(t, compose.Allowed, events[0].Outcome)
	require.Equal(t, compose.Denied, events[1].Outcome)
	require.Equal(t, "user", events[1].Decision.Rule)
	require.Equal(t, 1, events[1].Decision.Attempts)
	require.Equal(t, compose.Failed, events[2].Outcome)
	require.ErrorIs(t, events[2].Err, algo.ErrCost)
}

// losing is a store whose swaps are slow, and lose until they have been tried
// often enough.
type losing struct {
	storage.Store
	losses int
}

func (s *losing) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	time.Sleep(time.Second)
	if s.losses--; s.losses >= 0 {
		return make([]storage.Record, len(swaps)), false, nil
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

func TestObserverIsToldOfAttemptsAndDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last compose.Event
		l, err := compose.Options[call]{
			Timeout:  time.Minute,
			Observer: func(e compose.Event) { last = e },
		}.New(&losing{new(memory.Store), 2}, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/h")})
		require.NoError(t, err)
		began := time.Now()
		_, err = l.Allow(background, call{user: "ann"})
		require.NoError(t, err)
		require.Equal(t, 3, last.Decision.Attempts)
		require.Equal(t, time.Since(began), last.Duration)
		require.GreaterOrEqual(t, last.Duration, 2*time.Second)

		for range 2 {
			_, err = l.Allow(background, call{user: "ann"})
			require.NoError(t, err)
		}
		require.Equal(t, compose.Denied, last.Outcome)
		require.True(t, last.Decision.Cached)
		require.Zero(t, last.Duration, "a denial from memory costs no time")
	})
}

func TestMistakesInRulesAreTold(t *testing.T) {
	p := limitOf(t, "gcra 1/m")
	for says, rules := range map[string][]compose.Rule[call]{
		"rule 1: Name must not be empty": {{Name: "a", Policy: p}, {Policy: p}},
		"two":                            {{Name: "a", Policy: p}, {Name: "a", Policy: p}},
	} {
		_, err := compose.New(nil, rules...)
		require.ErrorContains(t, err, says)
	}
	_, err := compose.Options[call]{Timeout: -1}.New(nil)
	require.ErrorContains(t, err, "Timeout")
	_, err = compose.Options[call]{DenialCacheSize: -1}.New(nil)
	require.ErrorContains(t, err, "DenialCacheSize")
	_, err = compose.Options[call]{MaxSkew: -1}.New(nil)
	require.ErrorContains(t, err, "MaxSkew")
	_, err = compose.Options[call]{MaxRoundTrips: -1}.New(nil)
	require.ErrorContains(t, err, "MaxRoundTrips must be at least 0, got -1")
	_, err = compose.Options[call]{MaxQueue: -1}.New(nil)
	require.ErrorContains(t, err, "MaxQueue must be at least 0, got -1")
	_, err = compose.Options[call]{OnFailure: 9}.New(nil)
	require.ErrorContains(t, err, "OnFailure")
}

func TestANilStoreInMemoryIsRefused(t *testing.T) {
	_, err := compose.New((*memory.Store)(nil), rulesOf(t, "gcra 1/m")...)
	require.ErrorContains(t, err, "the store is a nil *memory.Store")
}

// Under a limiter nothing would come of it.
func TestAPolicyWithACostOfItsOwnIsNoRule(t *testing.T) {
	for _, spec := range []string{"gcra 10/h cost=5", "tokenbucket 10/h cost=2", "fixedwindow 10/h cost=2", "movingwindow 10/h cost=2", "all(gcra 10/h; gcra 20/d cost=2)"} {
		p := limitOf(t, spec)
		_, err := compose.New(nil, compose.Rule[call]{Name: "x", Policy: p})
		require.EqualError(t, err, `compose: rule "x": cost= has no effect in the policy of a rule, `+spec+`; set Rule.Cost`)
	}
	for _, spec := range []string{"gcra 10/h", "gcra 10/h cost=1", "all(gcra 10/h; gcra 20/d)"} {
		_, err := compose.New(nil, compose.Rule[call]{Name: "x", Policy: limitOf(t, spec)})
		require.NoError(t, err, spec)
	}
}

func TestAPolicyThatNobodyMadeIsNoRule(t *testing.T) {
	for _, p := range []algo.Policy{
		gcra.Policy{}, tokenbucket.Policy{}, fixedwindow.Policy{}, movingwindow.Policy{},
		new(compose.Stack), (*compose.Stack)(nil),
	} {
		_, err := compose.New(nil, compose.Rule[call]{Name: "x", Policy: p})
		require.ErrorContains(t, err, `compose: the policy of rule "x" denies everything: `)
		_, err = compose.All(limitOf(t, "gcra 1/m"), p)
		require.ErrorContains(t, err, "compose: All: policy 1 ")
	}
	l, err := compose.New(nil, compose.Rule[call]{Name: "x", PolicyFor: func(call) (algo.Policy, error) { return (*compose.Stack)(nil), nil }})
	require.NoError(t, err)
	d, err := l.Allow(background, call{})
	require.False(t, must(t, d, err).Allowed)
}

func TestUserFunctionsRunOncePerDecision(t *testing.T) {
	calls := 0
	key := func(call) string { calls++; return "k" }
	l, err := compose.New(contended{new(memory.Store)}, compose.Rule[call]{Name: "a", Key: key, Policy: limitOf(t, "gcra 1/m")})
	require.NoError(t, err)
	_, err = l.Allow(background, call{})
	require.NoError(t, err)
	require.Equal(t, 1, calls)
}

// contended hides all abilities of a store but the plain ones.
type contended struct{ storage.Store }

func TestPanicInAKeyerLeavesTheLimiterUsable(t *testing.T) {
	fail := true
	l, err := compose.New(nil, compose.Rule[call]{Name: "a", Policy: limitOf(t, "gcra 1/m"), Key: func(call) string {
		if fail {
			panic(errors.New("boom"))
		}
		return ""
	}})
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = l.Allow(background, call{}) })
	fail = false
	d, err := l.Allow(background, call{})
	require.True(t, must(t, d, err).Allowed)
}
