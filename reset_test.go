package sluice_test

// These tests promise what Reset and ResetRule delete, and that they report failures.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

func TestResetRuleDeletesOneStateOnEveryStore(t *testing.T) {
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	for i, store := range stores {
		t.Run(names[i], func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{Clock: clock.Now, Timeout: time.Minute, DenialCacheTTL: time.Minute}, store,
				sluice.Rule[call]{Name: "address", Key: byResource, Spec: "fixedwindow 20/h"},
				sluice.Rule[call]{Name: "account", Key: byUser, Spec: "gcra 3/h"},
				sluice.Rule[call]{Name: "everyone", Spec: "all(tokenbucket 50/h; movingwindow 90/h)"})
			ann, bob := call{user: "ann", resource: "192.0.2.1"}, call{user: "bob", resource: "192.0.2.1"}
			require.True(t, must(t)(l.AllowN(background, ann, 3)).Allowed)
			require.True(t, must(t)(l.AllowN(background, bob, 2)).Allowed)
			d := must(t)(l.Allow(background, ann))
			require.False(t, d.Allowed)
			require.Equal(t, "account", d.Rule)

			require.NoError(t, l.ResetRule(background, "account", ann))
			require.Equal(t, []int64{15, 3, 45}, remaining(t, l, ann))
			require.Equal(t, []int64{15, 1, 45}, remaining(t, l, bob))
			require.True(t, must(t)(l.Allow(background, ann)).Allowed, "although the denial was cached")

			require.NoError(t, l.ResetRule(background, "everyone", ann))
			require.Equal(t, []int64{14, 2, 50}, remaining(t, l, ann))
			records, _, err := store.Load(background, keyText("", "account", "gcra", "ann"), keyText("", "everyone", "gcra", ""))
			require.NoError(t, err)
			require.NotZero(t, records[0])
			require.Zero(t, records[1], "the record is deleted")
		})
	}
}

func TestResetRuleCallsOnlyTheFunctionsOfItsRule(t *testing.T) {
	other := sluice.Rule[call]{
		Name:      "other",
		Key:       func(call) string { t.Error("the key of another rule"); return "" },
		PolicyFor: func(call) (algo.Policy, error) { t.Error("the policy of another rule"); return nil, sluice.Skip },
		Cost:      func(call) int64 { t.Error("the cost of another rule"); return 1 },
	}
	errPlan := errors.New("no such plan")
	plan := sluice.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(c call) (algo.Policy, error) {
		switch c.user {
		case "staff":
			return nil, sluice.Skip
		case "eve":
			return nil, errPlan
		}
		return mustPolicy("gcra 1/h"), nil
	}}
	l := newLimiter(t, sluice.Options[call]{}, nil, other, plan)
	require.NoError(t, l.ResetRule(background, "plan", ann))
	require.NoError(t, l.ResetRule(background, "plan", call{user: "staff"}), "the rule does not apply")
	require.ErrorIs(t, l.ResetRule(background, "plan", call{user: "eve"}), errPlan)
	require.EqualError(t, l.ResetRule(background, "plam", ann),
		`sluice: ResetRule: no rule has the name "plam"; the rules are ["other" "plan"]`)
}

// With FailLocal, a reset also counts in the next outage.
func TestResetsReachTheLocalLimiter(t *testing.T) {
	for name, reset := range map[string]func(*sluice.Limiter[call]) error{
		"Reset":     func(l *sluice.Limiter[call]) error { return l.Reset(background, ann) },
		"ResetRule": func(l *sluice.Limiter[call]) error { return l.ResetRule(background, "rule 0", ann) },
		"Clear":     func(l *sluice.Limiter[call]) error { _, err := l.Clear(background, "rule 0"); return err },
	} {
		store := &listing{faultyStore: newFaultyStore()}
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 1/h")...)
		for range 2 {
			store.faultyStore.err = errNoTable
			require.True(t, must(t)(l.Allow(background, ann)).Allowed, name)
			require.False(t, must(t)(l.Allow(background, ann)).Allowed)
			store.faultyStore.err = nil
			require.NoError(t, reset(l))
		}
	}
}

func TestResetNeedsNoCost(t *testing.T) {
	for _, cost := range []int64{0, -1} {
		l := newLimiter(t, sluice.Options[call]{}, nil,
			sluice.Rule[call]{Name: "bytes", Key: byUser, Spec: "fixedwindow 100/h", Cost: func(c call) int64 { return c.cost }})
		require.Zero(t, must(t)(l.Allow(background, call{user: "ann", cost: 100})).Remaining)
		require.NoError(t, l.Reset(background, call{user: "ann", cost: cost}))
		require.Equal(t, []int64{100}, remaining(t, l, call{user: "ann", cost: 1}))
	}
}

func TestResetFailsWithTheStoreAndTheContext(t *testing.T) {
	for _, p := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{OnFailure: p}, &faultyStore{err: errOutage}, rulesOf("gcra 1/m", "gcra 2/m")...)
			require.ErrorIs(t, l.Reset(background, ann), storage.ErrUnavailable)
			require.ErrorIs(t, l.ResetRule(background, "rule 1", ann), storage.ErrUnavailable)
		})
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h", "gcra 2/h")...)
		require.ErrorIs(t, l.ResetRule(ended, "rule 0", call{}), context.Canceled)
	}
}

func TestResetThatFailsDoesNotReachTheLocalLimiter(t *testing.T) {
	store := newFaultyStore()
	l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 1/h")...)
	store.err = errNoTable
	require.True(t, must(t)(l.Allow(background, ann)).Allowed)
	require.ErrorIs(t, l.Reset(background, ann), errNoTable)
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
}

func TestObserverGetsOneEventOfAResetRule(t *testing.T) {
	var events []sluice.Event
	l := newLimiter(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) { events = append(events, e) }}, nil, rulesOf("gcra 1/h", "gcra 2/h")...)
	require.NoError(t, l.ResetRule(background, "rule 1", ann))
	require.Len(t, events, 1)
	require.Equal(t, sluice.OpReset, events[0].Op)
	require.Equal(t, sluice.Allowed, events[0].Outcome)
	require.Len(t, events[0].Decision.Results, 1)
	require.Equal(t, "rule 1", events[0].Decision.Results[0].Rule)
}
