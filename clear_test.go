package sluice_test

// These tests promise what Clear deletes, and that it reports failures.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

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

				deleted, err := l.Clear(background, "a")
				if _, lists := store.(storage.Lister); !lists && i > 0 {
					require.ErrorIs(t, err, errors.ErrUnsupported)
					return
				}
				require.NoError(t, err)
				require.Equal(t, len(calls)+5, deleted)
				for _, kind := range []string{"gcra 1/h", "fixedwindow 1/h"} {
					policy = mustPolicy(kind)
					for _, c := range calls {
						require.Equal(t, []int64{1, 0}, remaining(t, l, c))
					}
				}
				deleted, err = l.Clear(background, "a:b")
				require.NoError(t, err)
				require.Equal(t, len(calls), deleted)
				require.True(t, must(t)(l.Allow(background, calls[1])).Allowed, "although the denial was cached")
			})
		}
	}
}

func TestClearFails(t *testing.T) {
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/h", "gcra 2/h")...)
		_, err := l.Clear(background, "rule 2")
		require.EqualError(t, err, `sluice: Clear: no rule has the name "rule 2"; the rules are ["rule 0" "rule 1"]`)
		ended, cancel := context.WithCancel(background)
		cancel()
		_, err = l.Clear(ended, "rule 0")
		require.ErrorIs(t, err, context.Canceled)
	}
}

// listing is a store whose pages have keys of a test.
type listing struct {
	*faultyStore
	pages [][]string
	err   error // after the last page
}

func (l *listing) List(_ context.Context, _, cursor string, _ int) (keys []string, next string, err error) {
	if len(l.pages) == 0 {
		return nil, "", l.err
	}
	keys, l.pages = l.pages[0], l.pages[1:]
	return keys, "more", nil
}

func TestClearReturnsHowManyItDeletedBeforeAnError(t *testing.T) {
	rule := driver.Rule("", "rule 0", "gcra")
	for _, during := range []string{"List", "Reset"} {
		store := &listing{faultyStore: newFaultyStore(), err: errNoTable}
		var events []sluice.Event
		l := newLimiter(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) { events = append(events, e) }}, store, rulesOf("gcra 1/h")...)
		for _, user := range []string{"ann", "bob"} {
			require.True(t, must(t)(l.Allow(background, call{user: user})).Allowed)
		}
		store.pages = [][]string{{rule + "ann", rule + "bob", rule + "ann"}, {}, {rule + "absent"}}
		if during == "Reset" {
			store.pages, store.faultyStore.err = store.pages[:1], errNoTable
		}
		events = nil
		deleted, err := l.Clear(background, "rule 0")
		require.ErrorIs(t, err, errNoTable)
		require.Equal(t, map[string]int{"List": 2, "Reset": 0}[during], deleted, "a key that is listed twice counts once")
		require.Len(t, events, 1)
		require.Equal(t, sluice.OpReset, events[0].Op)
		require.Equal(t, sluice.Failed, events[0].Outcome)
	}
}
