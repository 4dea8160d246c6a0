package compose_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// leftUnder returns what is left of each rule.
func leftUnder(t *testing.T, l *compose.Limiter[call], in call) map[string]int64 {
	t.Helper()
	d, err := l.Peek(background, in)
	left := make(map[string]int64)
	for _, r := range must(t, d, err).Results {
		left[r.Rule] = r.Remaining
	}
	return left
}

// ResetRule resets one key of one rule on every store, and its own process allows the next
// call at once although the denial was cached.
func TestResetRuleLeavesOtherStatesAsTheyAre(t *testing.T) {
	clock := newVirtual()
	names, stores := everyWay(t, clock.Now)
	rules := []compose.Rule[call]{
		{Name: "address", Key: byResource, Policy: limitOf(t, "fixedwindow 20/h")},
		{Name: "account", Key: byUser, Policy: limitOf(t, "gcra 3/h")},
		{Name: "everyone", Policy: limitOf(t, "all(tokenbucket 50/h; movingwindow 90/h)")},
	}
	for i, store := range stores {
		t.Run(names[i], func(t *testing.T) {
			l, err := compose.Options[call]{Clock: clock.Now, Timeout: time.Minute, DenialCacheTTL: time.Minute}.New(store, rules...)
			require.NoError(t, err)
			ann, bob := call{user: "ann", resource: "192.0.2.1"}, call{user: "bob", resource: "192.0.2.1"}
			d, err := l.AllowN(background, ann, 3)
			require.True(t, must(t, d, err).Allowed)
			d, err = l.AllowN(background, bob, 2)
			require.True(t, must(t, d, err).Allowed)
			d, err = l.Allow(background, ann)
			require.Equal(t, "account", must(t, d, err).Rule)
			require.False(t, d.Allowed)

			require.NoError(t, l.ResetRule(background, "account", ann))
			require.Equal(t, map[string]int64{"address": 15, "account": 3, "everyone": 45}, leftUnder(t, l, ann))
			require.Equal(t, map[string]int64{"address": 15, "account": 1, "everyone": 45}, leftUnder(t, l, bob))
			d, err = l.Allow(background, ann)
			require.True(t, must(t, d, err).Allowed)

			require.NoError(t, l.ResetRule(background, "everyone", ann))
			require.Equal(t, map[string]int64{"address": 14, "account": 2, "everyone": 50}, leftUnder(t, l, ann))

			records, err := store.Load(background, driver.Key("", "", "account", "ann"), driver.Key("", "", "everyone", ""))
			require.NoError(t, err)
			require.NotZero(t, records[0])
			require.Zero(t, records[1], "the record is deleted")
		})
	}
}

func TestResetRuleOfALimiterWithOneRule(t *testing.T) {
	for _, store := range []storage.Store{nil, inPlace{new(memory.Store)}, swapOnly{new(memory.Store)}} {
		l, err := compose.New(store, compose.Rule[call]{Name: "account", Key: byUser, Policy: limitOf(t, "gcra 1/h")})
		require.NoError(t, err)
		for range 2 {
			d, err := l.Allow(background, call{user: "ann"})
			require.True(t, must(t, d, err).Allowed)
			d, err = l.Allow(background, call{user: "ann"})
			require.False(t, must(t, d, err).Allowed)
			require.NoError(t, l.ResetRule(background, "account", call{user: "ann"}))
		}
	}
}

func TestResetRuleOfAnUnknownRuleListsTheRules(t *testing.T) {
	l, err := compose.New(nil,
		compose.Rule[call]{Name: "address", Policy: limitOf(t, "gcra 1/h")},
		compose.Rule[call]{Name: "account", Policy: limitOf(t, "gcra 1/h")})
	require.NoError(t, err)
	require.EqualError(t, l.ResetRule(background, "acount", call{}),
		`compose: ResetRule: no rule has the name "acount"; the rules are ["address" "account"]`)
}

// The key and policy of the rule are found for the input, and no other rule is called.
func TestResetRuleCallsOnlyTheFunctionsOfThatRule(t *testing.T) {
	other := compose.Rule[call]{
		Name:      "other",
		Key:       func(call) string { t.Error("the key of another rule"); return "" },
		PolicyFor: func(call) (algo.Policy, error) { t.Error("the policy of another rule"); return nil, compose.Skip },
		Cost:      func(call) int64 { t.Error("the cost of another rule"); return 1 },
	}
	broken := errors.New("no such plan")
	plan := compose.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(c call) (algo.Policy, error) {
		switch c.user {
		case "staff":
			return nil, compose.Skip
		case "eve":
			return nil, broken
		}
		return limitOf(t, "gcra 1/h"), nil
	}}
	l, err := compose.New(nil, other, plan)
	require.NoError(t, err)
	require.NoError(t, l.ResetRule(background, "plan", call{user: "ann"}))
	require.NoError(t, l.ResetRule(background, "plan", call{user: "staff"}), "the rule does not apply")
	require.ErrorIs(t, l.ResetRule(background, "plan", call{user: "eve"}), broken)
}

// A failed reset is an error under every failure policy.
func TestResetFailsWithTheStore(t *testing.T) {
	outage := storage.NotApplied(fmt.Errorf("%w: no route", storage.ErrUnavailable))
	rules := []compose.Rule[call]{
		{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 1/m")},
		{Name: "resource", Key: byResource, Policy: limitOf(t, "gcra 1/m")},
	}
	for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
		synctest.Test(t, func(t *testing.T) {
			l, err := compose.Options[call]{OnFailure: p}.New(down{outage}, rules...)
			require.NoError(t, err)
			require.ErrorIs(t, l.Reset(background, call{user: "ann"}), storage.ErrUnavailable)
			require.ErrorIs(t, l.ResetRule(background, "user", call{user: "ann"}), storage.ErrUnavailable)
		})
	}
}

func TestResetRuleEndsWithItsContext(t *testing.T) {
	for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
		l, err := compose.New(store, rulesOf(t, "gcra 1/h", "gcra 2/h")...)
		require.NoError(t, err)
		ended, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, l.ResetRule(ended, "rule 0", call{}), context.Canceled)
	}
}

// The observer gets one event, with the result of the one rule.
func TestResetRuleIsObserved(t *testing.T) {
	var events []compose.Event
	l, err := compose.Options[call]{Observer: func(e compose.Event) { events = append(events, e) }}.New(nil, rulesOf(t, "gcra 1/h", "gcra 2/h")...)
	require.NoError(t, err)
	require.NoError(t, l.ResetRule(background, "rule 1", call{user: "ann"}))
	require.Len(t, events, 1)
	require.Equal(t, compose.OpReset, events[0].Op)
	require.Equal(t, compose.Allowed, events[0].Outcome)
	require.Len(t, events[0].Decision.Results, 1)
	require.Equal(t, "rule 1", events[0].Decision.Results[0].Rule)
}
