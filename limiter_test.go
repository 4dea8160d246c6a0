package sluice_test

// These tests promise what Limiter, Rule, Options and Decision document, for limiters in
// memory. all_stores_test.go holds the other stores to the same decisions. The laws of the
// engine and of the stores have tests in their own packages.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestCallIsChargedUnderAllRulesOrNone(t *testing.T) {
	clock := newClock()
	l := newLimiter(t, sluice.Options[call]{Clock: clock.Now}, nil,
		sluice.Rule[call]{Name: "user", Key: byUser, Spec: "gcra 2/m"},
		sluice.Rule[call]{Name: "resource", Key: byResource, Spec: "gcra 3/m"})
	allow := func(user string) sluice.Decision {
		t.Helper()
		return must(t)(l.Allow(background, call{user: user, resource: "r"}))
	}
	require.True(t, allow("ann").Allowed)
	require.True(t, allow("ann").Allowed)

	denied := allow("ann")
	require.False(t, denied.Allowed)
	require.Equal(t, "user", denied.Rule)
	require.Equal(t, 30*time.Second, denied.RetryAfter)
	require.Zero(t, denied.Results[0].Paid)
	require.Zero(t, denied.Results[1].Paid)
	require.EqualValues(t, 1, denied.Results[1].Remaining)

	last := allow("bob")
	require.True(t, last.Allowed)
	require.Equal(t, "resource", last.Rule)
	require.Zero(t, last.Remaining)
	require.Equal(t, "resource", allow("bob").Rule)

	clock.advance(20 * time.Second) // refills one unit of the resource, and none of ann
	require.Equal(t, "user", allow("ann").Rule)
	require.True(t, allow("bob").Allowed)
}

func TestRuleOfADenialHasTheLongestWait(t *testing.T) {
	rules := rulesOf("fixedwindow 10/h", "fixedwindow 2/h")
	rules[0].Cost = func(call) int64 { return 8 }
	l := newLimiter(t, sluice.Options[call]{}, nil, rules...)
	require.Equal(t, "rule 1", must(t)(l.Allow(background, ann)).Rule, "the one with the least Remaining")
	require.Equal(t, "rule 0", must(t)(l.Allow(background, ann)).Rule)
}

func TestPolicyForAndCostDependOnTheInput(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, nil,
		sluice.Rule[call]{
			Name: "plan",
			Key:  byUser,
			PolicyFor: func(c call) (algo.Policy, error) {
				switch {
				case c.user == "root":
					return mustPolicy("gcra 1/h"), sluice.Skip // the policy has no effect
				case c.write:
					return mustPolicy("gcra 2/m"), nil
				}
				return mustPolicy("gcra 10/m"), nil
			},
			Cost: func(c call) int64 { return c.cost },
		},
		sluice.Rule[call]{Name: "all", Spec: "gcra 100000/s"})
	d := must(t)(l.Allow(background, call{user: "root", cost: 100}))
	require.True(t, d.Allowed)
	require.Len(t, d.Results, 1, "the rule does not apply")
	d = must(t)(l.Allow(background, call{user: "ann", cost: 0}))
	require.True(t, d.Allowed)
	require.Len(t, d.Results, 1, "the call is free under this rule")
	d = must(t)(l.Allow(background, call{user: "ann", cost: 3, write: true}))
	require.Equal(t, algo.Never, d.RetryAfter)
	d = must(t)(l.Allow(background, call{user: "ann", cost: 3}))
	require.True(t, d.Allowed)
	require.EqualValues(t, 7, d.Remaining)
	d = must(t)(l.Allow(background, call{user: "ann", cost: 1, write: true}))
	require.False(t, d.Allowed, "units used under one plan count under another plan")
	_, err := l.Allow(background, call{user: "ann", cost: -1})
	require.EqualError(t, err, `sluice: rule "plan": Cost returned -1; return 0 for a free call`)
	require.ErrorIs(t, err, algo.ErrCost)
	d = must(t)(l.AllowN(background, call{user: "ann", cost: 1 << 40}, 1<<40))
	require.Len(t, d.Results, 2)
	require.Equal(t, algo.Never, d.Results[0].RetryAfter, "a product above 64 bits exceeds every capacity")
}

func TestCountBelowOneIsAnError(t *testing.T) {
	for _, rules := range [][]sluice.Rule[call]{nil, rulesOf("gcra 10/m")} {
		for _, store := range memoryStores() {
			l := newLimiter(t, sluice.Options[call]{}, store, rules...)
			for _, n := range []int64{0, -1, math.MinInt64} {
				for name, operation := range operations {
					d, err := operation(l, background, call{}, n)
					require.EqualError(t, err, fmt.Sprintf("sluice: n must be at least 1, got %d", n), name)
					require.ErrorIs(t, err, algo.ErrCost)
					require.Zero(t, d)
				}
			}
		}
	}
}

func TestDecisionWithoutRulesHasNoTime(t *testing.T) {
	for _, store := range memoryStores() {
		d := must(t)(newLimiter(t, sluice.Options[call]{}, store).Allow(background, ann))
		require.True(t, d.Allowed)
		require.True(t, d.At.IsZero())
	}
}

func TestErrorOfAPolicyIsNotAFailureOfTheStore(t *testing.T) {
	for text, alter := range map[string]func(r *algo.Result) error{
		"no policy for this":   func(*algo.Result) error { return errors.New("no policy for this") },
		"must not be negative": func(r *algo.Result) error { r.ResetAfter = -1; return nil }, // no store can keep such a record
	} {
		for _, store := range memoryStores() {
			for _, p := range failurePolicies {
				l := newLimiter(t, sluice.Options[call]{OnFailure: p}, store,
					sluice.Rule[call]{Name: "r", Key: byUser, Policy: altered{mustPolicy("gcra 3/h"), alter}})
				d, err := l.Allow(background, ann)
				require.ErrorContains(t, err, text)
				var of *sluice.RuleError
				require.ErrorAs(t, err, &of)
				require.Equal(t, []string{"r", "ann"}, []string{of.Rule, of.Key})
				require.Equal(t, sluice.Decision{Attempts: 1}, d)
			}
		}
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, &faultyStore{err: errNoTable},
			sluice.Rule[call]{Name: "r", Key: byUser, Policy: altered{mustPolicy("gcra 3/h"), alter}})
		_, err := l.Allow(background, ann)
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, errNoTable)
	}
}

func TestShadowRuleThatFailsReportsTheErrorAndDeniesNothing(t *testing.T) {
	errPolicy := errors.New("no policy for this")
	for name, store := range memoryStores() {
		policy := altered{mustPolicy("gcra 1/h"), func(*algo.Result) error { return errPolicy }}
		faulty := sluice.Rule[call]{Name: "trial", Policy: policy, Shadow: true}
		alone := newLimiter(t, sluice.Options[call]{}, store, faulty)
		for range 2 {
			d := must(t)(alone.Allow(background, call{}))
			require.True(t, d.Allowed)
			require.ErrorIs(t, d.Results[0].Err, errPolicy)
			require.Equal(t, algo.Result{Cost: 1}, d.Results[0].Result)
		}
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "real", Spec: "gcra 2/h"}, faulty)
		for i := range 3 {
			d := must(t)(l.Allow(background, call{}))
			require.Equal(t, i < 2, d.Allowed, name)
			require.NoError(t, d.Results[0].Err)
			require.ErrorIs(t, d.Results[1].Err, errPolicy)
			require.False(t, d.Results[1].Allowed)
		}
	}
}

func TestDamagedStateIsAnErrorWithARemedy(t *testing.T) {
	for _, store := range memoryStores() {
		rule := sluice.Rule[call]{Name: "user", Key: byUser, Spec: "gcra 5/m"}
		l := newLimiter(t, sluice.Options[call]{}, store, rule)
		damaged := storage.Swap{Key: keyText("", "user", "gcra", "ann"), New: storage.Record{Version: 1, State: []byte("damaged")}}
		_, swapped, err := store.CompareAndSwap(background, damaged)
		require.NoError(t, err)
		require.True(t, swapped)
		for range 2 { // the state is not cached
			_, err := l.Allow(background, ann)
			require.ErrorIs(t, err, algo.ErrState)
			require.ErrorContains(t, err, `sluice: rule "user", key "ann": algo: `)
			require.ErrorContains(t, err, "the stored state is damaged")
			require.ErrorContains(t, err, "Reset the key")
		}
		rule.Shadow = true
		d := must(t)(newLimiter(t, sluice.Options[call]{}, store, rule).Allow(background, ann))
		require.True(t, d.Allowed)
		require.ErrorIs(t, d.Results[0].Err, algo.ErrState)
		require.NoError(t, l.Reset(background, ann))
		must(t)(l.Allow(background, ann))
	}
}

var errPlan = errors.New("no such plan")

// faultyPlans are errors of a PolicyFor by the user of the call, and the errors of the
// limiter.
var faultyPlans = map[string]struct {
	policy algo.Policy
	err    error
	want   string
}{
	"nothing":       {nil, nil, noPolicy},
	"a nil Stack":   {(*compose.Stack)(nil), nil, noPolicy},
	"a nil Penalty": {(*compose.Penalty)(nil), nil, noPolicy},
	"an error":      {nil, errPlan, `sluice: rule "plan": PolicyFor: no such plan`},
	"an outage":     {nil, fmt.Errorf("plans: %w", storage.ErrUnavailable), `sluice: rule "plan": PolicyFor: plans: ` + storage.ErrUnavailable.Error()},
	"wrapped Skip":  {nil, fmt.Errorf("plan: %w", sluice.Skip), `sluice: rule "plan": PolicyFor: plan: sluice: the rule does not apply`},
}

const noPolicy = `sluice: rule "plan": PolicyFor returned no policy and no error; return Skip as the error if the rule does not apply`

// operations are the methods of a limiter for n calls.
var operations = map[string]func(l *sluice.Limiter[call], ctx context.Context, in call, n int64) (sluice.Decision, error){
	"AllowN": (*sluice.Limiter[call]).AllowN,
	"WaitN":  (*sluice.Limiter[call]).WaitN,
	"PeekN":  (*sluice.Limiter[call]).PeekN,
	"Refund": (*sluice.Limiter[call]).Refund,
	"Charge": (*sluice.Limiter[call]).Charge,
	"AllowUpTo": func(l *sluice.Limiter[call], ctx context.Context, in call, n int64) (sluice.Decision, error) {
		calls, d, err := l.AllowUpTo(ctx, in, n)
		d.Allowed = d.Allowed || calls > 0
		return d, err
	},
	"Reserve": func(l *sluice.Limiter[call], ctx context.Context, in call, n int64) (sluice.Decision, error) {
		r, d, err := l.Reserve(ctx, in, n)
		d.Allowed = d.Allowed || r != nil
		return d, err
	},
}

func TestErrorOfPolicyForFailsTheDecisionAndChargesNothing(t *testing.T) {
	operationsAndReset := maps.Clone(operations)
	operationsAndReset["Reset"] = func(l *sluice.Limiter[call], ctx context.Context, in call, _ int64) (sluice.Decision, error) {
		return sluice.Decision{}, l.Reset(ctx, in)
	}
	plan := sluice.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(c call) (algo.Policy, error) {
		if plan, ok := faultyPlans[c.user]; ok {
			return plan.policy, plan.err
		}
		return mustPolicy("gcra 10/m"), nil
	}}
	for others := range 4 { // the results are inline for up to three rules
		for _, p := range failurePolicies {
			stores := memoryStores()
			stores["in an outage"] = &faultyStore{err: errNoTable}
			for where, store := range stores {
				plan.Shadow = others == 2
				rules := append(rulesOf("gcra 10/m", "gcra 20/m", "gcra 30/m")[:others:others], plan)
				var events []sluice.Event
				l := newLimiter(t, sluice.Options[call]{OnFailure: p, Observer: func(_ context.Context, e sluice.Event) { events = append(events, e) }}, store, rules...)
				for user, faulty := range faultyPlans {
					for name, operation := range operationsAndReset {
						what := fmt.Sprintf("%s, %s, %s, beside %d rules, OnFailure %d", user, name, where, others, p)
						events = nil
						d, err := operation(l, background, call{user: user}, 2)
						require.Zero(t, d, what)
						require.EqualError(t, err, faulty.want, what)
						var rule *sluice.RuleError
						require.ErrorAs(t, err, &rule, what)
						require.Equal(t, "plan", rule.Rule)
						if faulty.err != nil {
							require.ErrorIs(t, err, faulty.err, what)
						}
						require.Len(t, events, 1, what)
						require.Equal(t, sluice.Failed, events[0].Outcome, what)
						require.False(t, events[0].Decision.Allowed, what)
					}
				}
				if where != "in an outage" && others > 0 {
					require.EqualValues(t, 10, remaining(t, l, ann)[0])
				}
			}
		}
	}
}

func TestFailurePoliciesApplyToFailuresOfTheStoreOnly(t *testing.T) {
	rule := sluice.Rule[call]{Name: "user", Key: byUser, Spec: "gcra 1/m", Cost: func(c call) int64 { return c.cost }}
	synctest.Test(t, func(t *testing.T) {
		var event sluice.Event
		observer := func(_ context.Context, e sluice.Event) { event = e }
		last := func(p sluice.FailurePolicy, calls int, cost int64) (d sluice.Decision, err error) {
			l := newLimiter(t, sluice.Options[call]{OnFailure: p, Timeout: time.Second, Observer: observer}, &faultyStore{err: errOutage}, rule)
			ctx, cancel := context.WithTimeout(background, time.Hour)
			defer cancel()
			for range calls {
				d, err = l.Allow(ctx, call{user: "ann", cost: cost})
			}
			return d, err
		}
		d, err := last(sluice.FailClosed, 1, 1)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.Zero(t, d)
		for _, c := range []struct {
			policy  sluice.FailurePolicy
			calls   int
			allowed bool
		}{{sluice.FailOpen, 2, true}, {sluice.FailLocal, 1, true}, {sluice.FailLocal, 2, false}} {
			d := must(t)(last(c.policy, c.calls, 1))
			require.Equal(t, d.Err, event.Err)
			require.Equal(t, sluice.Degraded, event.Outcome)
			require.Equal(t, c.allowed, d.Allowed)
			require.True(t, d.Degraded)
			require.ErrorIs(t, d.Err, storage.ErrUnavailable)
		}
		for _, p := range []sluice.FailurePolicy{sluice.FailOpen, sluice.FailLocal} {
			d, err = last(p, 1, -1)
			require.ErrorIs(t, err, algo.ErrCost)
			require.False(t, d.Allowed)
		}
	})
	for _, fault := range []error{storage.ErrKey, storage.ErrDuplicateKey, storage.ErrSwap, storage.ErrProgram} {
		_, err := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailOpen}, &faultyStore{err: fault}, rule).Allow(background, call{cost: 1})
		require.ErrorIs(t, err, fault)
	}
	for _, store := range memoryStores() {
		d, err := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailOpen}, store, rule).Allow(ended, call{cost: 1})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, d.Allowed)
	}
}

// lateContext is a context whose deadline is over and whose timer has not fired yet.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestDeadlineOfTheCallerIsNotAFailureOfTheStore(t *testing.T) {
	for _, p := range failurePolicies {
		l := newLimiter(t, sluice.Options[call]{OnFailure: p}, swapOnly{new(memory.Store)}, rulesOf("gcra 1/m")...)
		_, err := l.Allow(lateContext{background, time.Now()}, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, storage.ErrNotApplied)
	}
}

// lateStore answers after the timeout. It ignores the end of the context, like a driver that waits for
// the server.
type lateStore struct{ storage.Store }

func (s lateStore) Load(_ context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	time.Sleep(2 * time.Second)
	return s.Store.Load(background, keys...)
}

// The engine evaluates the call again when the store answers. Under the race detector, this test
// checks that this evaluation shares no memory with the local decision.
func TestLateAnswerDoesNotChangeALocalDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, lateStore{new(memory.Store)}, rulesOf("gcra 1/m")...)
		d := must(t)(l.Allow(background, ann))
		require.True(t, d.Allowed)
		require.True(t, d.Degraded)
		time.Sleep(5 * time.Second)
		require.Equal(t, ann.user, d.Results[0].Key)
	})
}

// Another process does not see a reset for up to DenialCacheTTL. The limiter that made it sees it at once.
func TestDenialIsCachedForDenialCacheTTL(t *testing.T) {
	for option, ttl := range map[time.Duration]time.Duration{0: time.Second, 3 * time.Second: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := swapOnly{new(memory.Store)}
			process := func(ttl time.Duration) *sluice.Limiter[call] {
				return newLimiter(t, sluice.Options[call]{DenialCacheTTL: ttl}, store, rulesOf("gcra 1/h")...)
			}
			other, caching, none := process(0), process(option), process(-1)
			allow := func(l *sluice.Limiter[call]) sluice.Decision { return must(t)(l.Allow(background, ann)) }
			require.True(t, allow(other).Allowed)
			for range 2 {
				require.False(t, allow(none).Cached)
			}
			require.False(t, allow(caching).Cached, "nothing is cached yet")
			require.True(t, allow(caching).Cached)
			require.NoError(t, other.Reset(background, ann))
			time.Sleep(ttl - time.Millisecond)
			require.True(t, allow(caching).Cached)
			time.Sleep(time.Millisecond) // from now on, one call asks the store
			require.True(t, allow(caching).Allowed)
			require.False(t, allow(caching).Allowed)
			require.NoError(t, caching.Reset(background, ann))
			require.True(t, allow(caching).Allowed)
		})
	}
}

// The other operations, and a call whose context has ended, do not use the cached denial.
func TestOnlyAllowIsDeniedFromTheCache(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, swapOnly{new(memory.Store)}, rulesOf("gcra 1/h")...)
	for range 2 {
		must(t)(l.Allow(background, ann))
	}
	d := must(t)(l.Allow(background, ann))
	require.True(t, d.Cached)
	require.False(t, d.At.IsZero())
	_, err := l.Allow(ended, ann)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, must(t)(l.Peek(background, ann)).Cached)
	require.EqualValues(t, -1, must(t)(l.Charge(background, ann, 1)).Remaining)
}

func TestAttemptsBeforeAFailureCount(t *testing.T) {
	for i, p := range failurePolicies {
		store := newFaultyStore()
		store.swapErr = errNoTable
		d, _ := newLimiter(t, sluice.Options[call]{OnFailure: p}, store, rulesOf("gcra 1/h")...).Allow(background, ann)
		require.Equal(t, []int{1, 1, 2}[i], d.Attempts)
	}
}

// slowStore takes a second for a swap, and loses the first swaps.
type slowStore struct {
	storage.Store
	conflicts int
}

func (s *slowStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	time.Sleep(time.Second)
	if s.conflicts--; s.conflicts >= 0 {
		return make([]storage.Record, len(swaps)), false, nil
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

func TestObserverGetsEveryDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []sluice.Event
		l := newLimiter(t, sluice.Options[call]{Timeout: time.Minute, Observer: func(_ context.Context, e sluice.Event) { events = append(events, e) }},
			&slowStore{new(memory.Store), 2}, sluice.Rule[call]{Name: "user", Key: byUser, Spec: "gcra 1/h", Cost: func(c call) int64 { return c.cost }})
		began := time.Now()
		must(t)(l.Allow(background, call{cost: 1}))
		require.Equal(t, sluice.Allowed, events[0].Outcome)
		require.Equal(t, 3, events[0].Decision.Attempts)
		require.Equal(t, time.Since(began), events[0].Duration)
		require.GreaterOrEqual(t, events[0].Duration, 2*time.Second)
		for range 2 {
			must(t)(l.Allow(background, call{cost: 1}))
		}
		_, err := l.Allow(background, call{cost: -1})
		require.Error(t, err)
		require.Len(t, events, 4)
		require.Equal(t, sluice.Denied, events[2].Outcome)
		require.Equal(t, "user", events[2].Decision.Rule)
		require.True(t, events[2].Decision.Cached)
		require.Zero(t, events[2].Duration, "a cached denial takes no time")
		require.Equal(t, sluice.Failed, events[3].Outcome)
		require.ErrorIs(t, events[3].Err, algo.ErrCost)
	})
}

func TestNewRefusesFaultyRulesAndOptions(t *testing.T) {
	policy := mustPolicy("gcra 1/s")
	policyFor := func(call) (algo.Policy, error) { return policy, nil }
	for want, rules := range map[string][]sluice.Rule[call]{
		`sluice: rule 1: Name must not be empty`:                           {{Name: "a", Policy: policy}, {Policy: policy}},
		`sluice: rule 1 has no policy; set Spec, Policy or PolicyFor`:      {{Name: "a", Policy: policy}, {}},
		`sluice: two rules have the name "a"`:                              {{Name: "a", Policy: policy}, {Name: "a", Policy: policy}},
		`sluice: rule "r" has no policy; set Spec, Policy or PolicyFor`:    {{Name: "r"}},
		`sluice: rule "s" has more than one of Spec, Policy and PolicyFor`: {{Name: "s", Spec: "gcra 1/s", Policy: policy}},
		`sluice: rule "t" has more than one of Spec, Policy and PolicyFor`: {{Name: "t", Spec: "gcra 1/s", PolicyFor: policyFor}},
		`sluice: rule "u" has more than one of Spec, Policy and PolicyFor`: {{Name: "u", Policy: policy, PolicyFor: policyFor}},
		`sluice: For needs at least one rule`:                              nil,
	} {
		_, err := sluice.For(nil, rules...)
		require.ErrorContains(t, err, want)
	}
	for want, o := range map[string]sluice.Options[call]{
		"Options.Timeout must be at least 0, got -1ns":       {Timeout: -1},
		"Options.DenialCacheSize must be at least 0, got -1": {DenialCacheSize: -1},
		"Options.MaxSkew must be at least 0, got -1ns":       {MaxSkew: -1},
		"Options.MaxRoundTrips must be at least 0, got -1":   {MaxRoundTrips: -1},
		"Options.MaxQueue must be at least 0, got -1":        {MaxQueue: -1},
		"Options.OnFailure must be FailClosed, FailOpen":     {OnFailure: 9},
	} {
		_, err := o.New(nil)
		require.ErrorContains(t, err, want)
	}
	for _, store := range []storage.Store{(*memory.Store)(nil), (*postgres.Store)(nil)} {
		_, err := sluice.For(store, rulesOf("gcra 1/m")...)
		require.ErrorContains(t, err, fmt.Sprintf("the store is a nil %T; check the error", store))
	}
	_, err := sluice.New(nil, "")
	require.EqualError(t, err, "sluice: rule 0 has no policy; set Spec, Policy or PolicyFor", "an empty spec is not an empty name")
}

func TestNewRefusesZeroPolicies(t *testing.T) {
	for _, p := range []algo.Policy{
		gcra.Policy{}, tokenbucket.Policy{}, fixedwindow.Policy{}, movingwindow.Policy{},
		new(compose.Stack), (*compose.Stack)(nil),
	} {
		_, err := sluice.For(nil, sluice.Rule[call]{Name: "x", Policy: p})
		require.ErrorContains(t, err, `sluice: the policy of rule "x" denies everything: `)
		_, err = compose.All(mustPolicy("gcra 1/m"), p)
		require.ErrorContains(t, err, "compose: All: policy 1 ")
	}
	l := newLimiter(t, sluice.Options[call]{}, nil, sluice.Rule[call]{Name: "x", PolicyFor: func(call) (algo.Policy, error) { return new(compose.Stack), nil }})
	require.False(t, must(t)(l.Allow(background, call{})).Allowed)
}

func TestRuleWithASpecHasThePolicyOfTheSpec(t *testing.T) {
	rules := rulesOf("gcra 2/min")
	d := must(t)(newLimiter(t, sluice.Options[call]{}, nil, rules...).Allow(background, ann))
	require.Equal(t, mustPolicy("gcra 2/m"), d.Results[0].Policy)
	require.Nil(t, rules[0].Policy, "New does not change the rules of the caller")
}

func TestErrorOfASpecNamesTheRuleAndShowsTheWord(t *testing.T) {
	_, err := sluice.For(nil,
		sluice.Rule[call]{Name: "address", Spec: "gcra 20/min"},
		sluice.Rule[call]{Name: "account", Spec: "gcra 5/min brust=2"})
	require.EqualError(t, err, strings.Join([]string{
		`sluice: rule "account": policy "gcra 5/min brust=2", column 12: unknown option "brust"; gcra takes burst=; did you mean burst=?`,
		`gcra 5/min brust=2`,
		`           ^^^^^^^`,
	}, "\n"))
	var bad *compose.SpecError
	require.True(t, errors.As(err, &bad))
	require.Equal(t, "account", bad.Rule)

	_, err = sluice.For(nil, sluice.Rule[call]{Name: "gcra 5/x", Spec: "gcra 5/x"})
	require.ErrorContains(t, err, `compose: policy "gcra 5/x", column 6: `, "a rule named for its spec is not named again")

	for _, spec := range []string{strings.Repeat("x", 5000), "gcra\n5/x", "gcra 5/\x1b[2J"} {
		_, err := sluice.For(nil, sluice.Rule[call]{Name: "r", Spec: spec})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n", "a spec that a terminal cannot show has no caret")
		require.Less(t, len(err.Error()), 600)
	}
}

func TestAllRulesUseOneReadingOfTheClock(t *testing.T) {
	for _, store := range memoryStores() {
		now, readings := newClock().Now(), 0
		clock := func() time.Time { readings++; now = now.Add(time.Second); return now }
		l := newLimiter(t, sluice.Options[call]{Clock: clock}, store, rulesOf("gcra 5/d", "gcra 2/d", "all(fixedwindow 4/d; movingwindow 5/d)")...)
		for calls := 1; calls <= 3; calls++ { // the last is denied
			d := must(t)(l.Allow(background, ann))
			require.Equal(t, calls < 3, d.Allowed)
			require.Equal(t, 1, d.Attempts)
			require.Equal(t, calls, readings)
		}
	}
}

// Only its own denial begins a penalty: not the denial of another rule.
func TestPenaltyOfARuleBeginsOnlyWithItsOwnDenial(t *testing.T) {
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	began := clock.now
	for i, store := range stores {
		clock.now = began
		l := newLimiter(t, sluice.Options[call]{Clock: clock.Now, Timeout: time.Minute}, store,
			sluice.Rule[call]{Name: "account", Key: byUser, Spec: "penalty(fixedwindow 3/15min; for=1h)"},
			sluice.Rule[call]{Name: "address", Key: byResource, Spec: "fixedwindow 2/15min"})
		login := func(resource string) sluice.Decision {
			return must(t)(l.Allow(background, call{user: "ann", resource: resource}))
		}
		require.True(t, login("a").Allowed, names[i])
		require.True(t, login("a").Allowed)
		d := login("a")
		require.Equal(t, "address", d.Rule)
		require.Equal(t, 15*time.Minute, d.RetryAfter)
		require.True(t, login("b").Allowed, "%s: the denial by address began no penalty", names[i])
		d = login("b")
		require.Equal(t, "account", d.Rule)
		require.Equal(t, time.Hour, d.RetryAfter)
		for range 5 {
			clock.advance(10 * time.Minute)
			require.False(t, login("b").Allowed, names[i])
		}
		require.Equal(t, 10*time.Minute, login("b").RetryAfter, "%s: calls do not extend it", names[i])
		require.NoError(t, l.ResetRule(background, "account", call{user: "ann"}))
		require.True(t, login("b").Allowed, "%s: a reset ends it", names[i])
		for login("c").Allowed {
			clock.advance(time.Second)
		}
		clock.advance(time.Hour)
		require.True(t, login("c").Allowed)
	}
}

func TestLogValues(t *testing.T) {
	for want, value := range map[string]any{
		"v.allowed=true v.rule=user v.remaining=3": sluice.Decision{Allowed: true, Rule: "user", Remaining: 3, Attempts: 1},
		"v.allowed=false v.rule=user v.remaining=0 v.retry_after=1m0s v.cached=true v.attempts=2 v.skew=1s v.err=ahead": sluice.Decision{
			Rule: "user", RetryAfter: time.Minute, Cached: true, Attempts: 2, Skew: time.Second, Err: errors.New("ahead"),
			Results: []sluice.RuleResult{{Rule: "user", Key: "secret"}},
		},
		`v.allowed=true v.rule="" v.remaining=0 v.prepaid=true v.degraded=true`: sluice.Decision{Allowed: true, Degraded: true, Prepaid: true},
		"v.op=allow v.outcome=allowed v.duration=5ms v.allowed=true v.rule=user v.remaining=3": sluice.Event{
			Op: sluice.OpAllow, Outcome: sluice.Allowed, Duration: 5 * time.Millisecond, Decision: sluice.Decision{Allowed: true, Rule: "user", Remaining: 3},
		},
		"v.op=reset v.outcome=failed v.duration=0s v.err=outage": sluice.Event{Op: sluice.OpReset, Outcome: sluice.Failed, Err: errors.New("outage")},
		`v.op=allow v.outcome=failed v.duration=0s v.err="sluice: rule \"user\": damaged"`: sluice.Event{
			Op: sluice.OpAllow, Outcome: sluice.Failed, Err: fmt.Errorf("wrapped: %w", &sluice.RuleError{Rule: "user", Key: "secret", Err: errors.New("damaged")}),
		},
		`v.op=allow v.outcome=failed v.duration=0s v.err="sluice: rule \"plan\": sluice: rule \"user\": damaged"`: sluice.Event{
			Op: sluice.OpAllow, Outcome: sluice.Failed, Err: &sluice.RuleError{Rule: "plan", Err: &sluice.RuleError{Rule: "user", Key: "secret", Err: errors.New("damaged")}},
		},
	} {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", value)
		require.Contains(t, b.String(), "msg=m "+want+"\n")
	}
}
