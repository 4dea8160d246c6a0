package sluice_test

// These tests promise what Reset, ResetRule and Clear delete, and that they report failures.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
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
			require.NotZero(t, recordOf(t, store, "", "account", "gcra", "ann"))
			require.Zero(t, recordOf(t, store, "", "everyone", "all(movingwindow/h,tokenbucket/h)", ""), "the record is deleted")
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

// With FailLocal, a reset also counts in the next outage. One that fails does not count in this one.
func TestResetsReachTheLocalLimiter(t *testing.T) {
	for name, reset := range map[string]func(*sluice.Limiter[call]) error{
		"Reset":     func(l *sluice.Limiter[call]) error { return l.Reset(background, ann) },
		"ResetRule": func(l *sluice.Limiter[call]) error { return l.ResetRule(background, "rule 0", ann) },
		"Clear":     func(l *sluice.Limiter[call]) error { _, err := l.Clear(background, "rule 0"); return err },
	} {
		store := &listing{faultyStore: newFaultyStore()}
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 1/h")...)
		for range 2 {
			store.faultyStore.err, store.err = errNoTable, errNoTable
			require.True(t, must(t)(l.Allow(background, ann)).Allowed, name)
			require.ErrorIs(t, reset(l), errNoTable)
			require.False(t, must(t)(l.Allow(background, ann)).Allowed, name)
			store.faultyStore.err, store.err = nil, nil
			require.NoError(t, reset(l))
		}
	}
}

// Limiters with the same Options.Local share what they allow during an outage, and so do joined ones.
func TestLimitersShareALocalStore(t *testing.T) {
	store := &faultyStore{err: errNoTable}
	of := func(local *memory.Store) *sluice.Limiter[call] {
		return newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal, Local: local}, store, rulesOf("gcra 1/h")...)
	}
	local, alone := new(memory.Store), of(nil)
	joined, err := sluice.Join(alone)
	require.NoError(t, err)
	limiters := []*sluice.Limiter[call]{of(local), of(local), alone, joined}
	for i, allowed := range []bool{true, false, true, false} {
		require.Equal(t, allowed, must(t)(limiters[i].Allow(background, ann)).Allowed, i)
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
	for _, p := range failurePolicies {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, sluice.Options[call]{OnFailure: p}, &faultyStore{err: errOutage}, rulesOf("gcra 1/m", "gcra 2/m")...)
			require.ErrorIs(t, l.Reset(background, ann), storage.ErrUnavailable)
			require.ErrorIs(t, l.ResetRule(background, "rule 1", ann), storage.ErrUnavailable)
		})
	}
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h", "gcra 2/h")...)
		require.ErrorIs(t, l.ResetRule(ended, "rule 0", call{}), context.Canceled)
	}
}

func TestClearResetsAllKeysOfARule(t *testing.T) {
	const users = 300 // more than a page
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	for i, store := range stores {
		for _, group := range []func(call) string{nil, func(c call) string { return c.user }} {
			t.Run(fmt.Sprint(names[i], ", groups: ", group != nil), func(t *testing.T) {
				o := sluice.Options[call]{Clock: clock.Now, Timeout: time.Minute, DenialCacheTTL: time.Hour, Namespace: t.Name(), Group: group}
				policy := mustPolicy("gcra 1/h")
				plan := sluice.Rule[call]{Name: "a", Key: byUser, PolicyFor: func(c call) (algo.Policy, error) { return policy, nil }}
				l := newLimiter(t, o, store, plan, sluice.Rule[call]{Name: "a:b", Key: byUser, Spec: "gcra 1/h"})
				calls := []call{{user: ""}, {user: ":"}, {user: "a*"}, {user: "\xff"}, {user: strings.Repeat("long", 200)}}
				for i := range users {
					calls = append(calls, call{user: fmt.Sprint(i)})
				}
				for _, c := range calls {
					require.True(t, must(t)(l.Allow(background, c)).Allowed)
				}
				require.False(t, must(t)(l.Allow(background, calls[1])).Allowed)
				policy = mustPolicy("fixedwindow 1/h") // another kind
				for _, c := range calls[:5] {
					require.NoError(t, l.ResetRule(background, "a:b", c))
					require.True(t, must(t)(l.Allow(background, c)).Allowed)
				}

				if _, lists := store.(storage.Lister); !lists && i > 0 {
					_, err := l.Clear(background, "a")
					require.ErrorIs(t, err, errors.ErrUnsupported)
					return
				}
				requireCleared(t, l, "a", len(calls)+5)
				for _, kind := range []string{"gcra 1/h", "fixedwindow 1/h"} {
					policy = mustPolicy(kind)
					for _, c := range calls {
						require.Equal(t, []int64{1, 0}, remaining(t, l, c))
					}
				}
				requireCleared(t, l, "a:b", len(calls))
				require.True(t, must(t)(l.Allow(background, calls[1])).Allowed, "although the denial was cached")
			})
		}
	}
}

// requireCleared clears a rule, which must delete a number of records.
func requireCleared(t *testing.T, l *sluice.Limiter[call], rule string, records int) {
	t.Helper()
	deleted, err := l.Clear(background, rule)
	require.NoError(t, err)
	require.Equal(t, records, deleted)
}

func TestClearFails(t *testing.T) {
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h", "gcra 2/h")...)
		_, err := l.Clear(background, "rule 2")
		require.EqualError(t, err, `sluice: Clear: no rule has the name "rule 2"; the rules are ["rule 0" "rule 1"]`)
		_, err = l.Clear(ended, "rule 0")
		require.ErrorIs(t, err, context.Canceled)
	}
}

// The process knows nothing of the reset by another one but its own Clear.
func TestClearDropsTheDenialsOfItsProcess(t *testing.T) {
	store := openSQLite(t, nil)
	o := sluice.Options[call]{DenialCacheTTL: time.Hour}
	l, other := newLimiter(t, o, store, rulesOf("gcra 1/h")...), newLimiter(t, o, store, rulesOf("gcra 1/h")...)
	must(t)(l.Allow(background, ann))
	must(t)(l.Allow(background, ann))
	require.True(t, must(t)(l.Allow(background, ann)).Cached)
	requireCleared(t, other, "rule 0", 1)
	requireCleared(t, l, "rule 0", 0)
	require.True(t, must(t)(l.Allow(background, ann)).Allowed)
}

func TestClearOfJoinedLimitersKeepsTheirNamespaces(t *testing.T) {
	store := openSQLite(t, nil)
	one := newLimiter(t, sluice.Options[call]{Namespace: "one"}, store, sluice.Rule[call]{Name: "a", Key: byUser, Spec: "gcra 1/h"})
	two := newLimiter(t, sluice.Options[call]{Namespace: "two"}, store, sluice.Rule[call]{Name: "b", Key: byUser, Spec: "gcra 1/h"})
	both, err := sluice.Join(one, two)
	require.NoError(t, err)
	must(t)(both.Allow(background, ann))
	requireCleared(t, both, "b", 1)
	require.Equal(t, []int64{0, 1}, remaining(t, both, ann))
}

func TestClearWaitsForAFullQueue(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{MaxQueue: 1}, openSQLite(t, nil), rulesOf("gcra 1/h")...)
	for i := range 100 {
		must(t)(l.Allow(background, call{user: fmt.Sprint(i)}))
	}
	requireCleared(t, l, "rule 0", 100)
}

func TestPanicInClearReachesTheCaller(t *testing.T) {
	l, store, ann, bob := newListing(t, sluice.Options[call]{})
	store.pages, store.panics = [][]string{{ann, bob}}, true
	require.PanicsWithValue(t, "a bug of the store", func() { _, _ = l.Clear(background, "rule 0") })
}

// listing is a store whose pages have keys of a test.
type listing struct {
	*faultyStore
	pages   [][]string
	err     error  // after the last page
	failing string // the key whose deletion fails
	failure error
	panics  bool
}

func (l *listing) List(_ context.Context, _, cursor string, _ int) (keys []string, next string, err error) {
	if len(l.pages) == 0 {
		return nil, "", l.err
	}
	keys, l.pages = l.pages[0], l.pages[1:]
	return keys, "more", nil
}

func (l *listing) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	switch {
	case l.panics:
		panic("a bug of the store")
	case swaps[0].Key == l.failing && swaps[0].New.Version == 0:
		return nil, false, l.failure
	}
	return l.faultyStore.CompareAndSwap(ctx, swaps...)
}

// newListing returns a limiter on a store that has the keys of ann and bob.
func newListing(t *testing.T, o sluice.Options[call]) (l *sluice.Limiter[call], store *listing, ann, bob string) {
	store = &listing{faultyStore: newFaultyStore()}
	l = newLimiter(t, o, store, rulesOf("gcra 1/h")...)
	for _, user := range []string{"ann", "bob"} {
		require.True(t, must(t)(l.Allow(background, call{user: user})).Allowed)
	}
	rule := driver.Rule("", "rule 0", "gcra")
	return l, store, rule + "ann", rule + "bob"
}

func TestClearReturnsHowManyItDeletedBeforeAnError(t *testing.T) {
	for _, during := range []string{"List", "Reset"} {
		var events []sluice.Event
		l, store, ann, bob := newListing(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) { events = append(events, e) }})
		store.pages, store.err = [][]string{{ann, bob, ann}, {}, {bob}}, errNoTable
		want := 2 // a key that is listed twice counts once
		if during == "Reset" {
			store.faultyStore.err, want = errNoTable, 0
		}
		events = nil
		deleted, err := l.Clear(background, "rule 0")
		require.ErrorContains(t, err, "no such table")
		require.Equal(t, want, deleted)
		require.NotErrorIs(t, err, storage.ErrNotApplied)
		require.NotContains(t, err.Error(), "nothing was applied")
		require.Len(t, events, 1)
		require.Equal(t, sluice.OpReset, events[0].Op)
		require.Equal(t, sluice.Failed, events[0].Outcome)
	}
}

func TestClearGoesOnAfterAFailureOfAKey(t *testing.T) {
	for _, failure := range []error{storage.ErrContended, errNoTable, errOutage} {
		synctest.Test(t, func(t *testing.T) {
			l, store, ann, bob := newListing(t, sluice.Options[call]{})
			store.pages, store.failing, store.failure = [][]string{{ann}, {bob}}, ann, failure
			deleted, err := l.Clear(background, "rule 0")
			require.NotErrorIs(t, err, storage.ErrNotApplied)
			var of *storage.KeyError
			require.ErrorAs(t, err, &of)
			require.Equal(t, ann, of.Key)
			require.NotContains(t, err.Error(), "ann")
			if errors.Is(failure, storage.ErrUnavailable) {
				require.ErrorIs(t, err, storage.ErrUnavailable)
				require.Zero(t, deleted, "all others would fail as well")
				return
			}
			require.Equal(t, 1, deleted)
		})
	}
}

// Each worker ends with the timeout of its first key.
func TestClearEndsIfTheStoreIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store, ann, _ := newListing(t, sluice.Options[call]{CircuitOpenAfter: -1})
		store.pages = [][]string{slices.Repeat([]string{ann}, 100), {ann}}
		store.failing, store.failure = ann, errOutage
		began := time.Now()
		_, err := l.Clear(background, "rule 0")
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

func ExampleLimiter_Clear() {
	ctx := context.Background()
	limiter := sluice.MustFor(nil, sluice.By("login", func(account string) string { return account }, "fixedwindow 5/15min"))
	_, _ = limiter.AllowN(ctx, "alice", 5)
	_, _ = limiter.AllowN(ctx, "bob", 5)
	deleted, err := limiter.Clear(ctx, "login")
	fmt.Println(deleted, err)
	// Output:
	// 2 <nil>
}
