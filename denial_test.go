package sluice_test

// These tests promise what a denial stores: nothing, unless the policy changes its state, or the record must be kept longer.

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// storesInGo returns the stores whose decisions run in Go. Their time is that of clock.
func storesInGo(t *testing.T, clock *fakeClock) map[string]storage.Store {
	inMemory := func() *memory.Store { return &memory.Store{Clock: clock.Now} }
	return map[string]storage.Store{
		"in memory":       inMemory(),
		"in transactions": transactor{inMemory()},
		"by swaps":        swapOnly{inMemory()},
		"SQLite":          openSQLite(t, clock.Now),
	}
}

// The limit is lowered while most of it is used. The record was written with the TTL of the old limit.
func TestRetryAfterHoldsAfterALimitIsLowered(t *testing.T) {
	for _, c := range []struct {
		before, after string
		use           int64
		wait          time.Duration
	}{
		{"gcra 100/10s", "gcra 10/10s", 60, 51 * time.Second},
		{"tokenbucket 100/10s", "tokenbucket 10/10s", 60, 51 * time.Second},
		{"gcra 100/10s", "gcra 7/10s", 60, 77142858 * time.Microsecond},
		{"gcra 7/10s", "gcra 3/10s", 7, 16666667 * time.Microsecond}, // a unit has the same weight under both
		{"all(gcra 100/10s; gcra 1000/10s)", "all(gcra 10/10s; gcra 1000/10s)", 60, 51 * time.Second},
	} {
		clock := newClock()
		for name, store := range storesInGo(t, clock) {
			t.Run(fmt.Sprint(c.before, " to ", c.after, " ", name), func(t *testing.T) {
				o := sluice.Options[call]{DenialCacheTTL: -1, Clock: clock.Now}
				old, lowered := newLimiter(t, o, store, rulesOf(c.before)...), newLimiter(t, o, store, rulesOf(c.after)...)
				require.True(t, must(t)(old.AllowN(background, ann, c.use)).Allowed)
				denied := must(t)(lowered.Allow(background, ann))
				require.False(t, denied.Allowed)
				require.Equal(t, c.wait, denied.RetryAfter)
				for _, part := range []time.Duration{3, 2, 1} {
					d := c.wait / 4
					clock.advance(d)
					denied = must(t)(lowered.Allow(background, ann))
					require.False(t, denied.Allowed, "%v before the end", part*d)
				}
				requireAllowedExactlyAfter(t, lowered, clock, denied.RetryAfter)
			})
		}
	}
}

// A cost above the burst is denied for ever, even if no units are in use any more. Such a denial deletes nothing.
func TestDenialStoresNothing(t *testing.T) {
	clock := newClock()
	for name, store := range storesInGo(t, clock) {
		for _, others := range [][]string{nil, {"gcra 100/h"}} {
			l := newLimiter(t, sluice.Options[call]{Clock: clock.Now, DenialCacheTTL: -1}, store, rulesOf(append([]string{"gcra 10/10s"}, others...)...)...)
			load := func(key string) storage.Version {
				records, _, err := store.Load(background, keyText("", "rule 0", "gcra", key))
				require.NoError(t, err)
				return records[0].Version
			}
			require.False(t, must(t)(l.AllowN(background, call{user: "new"}, 11)).Allowed)
			require.Zero(t, load("new"), name)
			must(t)(l.Allow(background, ann))
			before := load("ann")
			require.Equal(t, time.Second, must(t)(l.AllowN(background, ann, 10)).RetryAfter)
			clock.advance(7 * time.Second)
			require.Equal(t, algo.Never, must(t)(l.AllowN(background, ann, 11)).RetryAfter, name)
			require.Equal(t, before, load("ann"), name)
			clock.advance(-7 * time.Second)
			require.NoError(t, l.Reset(background, ann))
		}
	}
}

// The servers of databases have their own clocks. So the test reads how long they keep the record.
func TestServersKeepARecordAfterALimitIsLowered(t *testing.T) {
	for name, store := range serverStores(t) {
		for i, c := range []struct{ before, after string }{
			{"gcra 100/10s", "gcra 10/10s"}, {"tokenbucket 100/10s", "tokenbucket 10/10s"}, {"gcra 7/10s", "gcra 3/10s"},
			{"all(gcra 100/10s; gcra 1000/10s)", "all(gcra 10/10s; gcra 1000/10s)"},
		} {
			t.Run(fmt.Sprint(c.before, " to ", c.after, " ", name), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: fmt.Sprint(i), DenialCacheTTL: -1}
				other := sluice.Rule[call]{Name: "other", Key: byUser, Spec: "fixedwindow 1000/h"}
				old, lowered := newLimiter(t, o, store, rulesOf(c.before)...), newLimiter(t, o, store, append(rulesOf(c.after), other)...)
				require.True(t, must(t)(old.AllowN(background, ann, 7)).Allowed)
				old.Charge(background, ann, 53)
				denied := must(t)(lowered.AllowN(background, ann, 3))
				require.False(t, denied.Allowed)
				require.Greater(t, denied.RetryAfter, 16*time.Second)
				key := keyText(fmt.Sprint(i), "rule 0", compose.Kind(mustPolicy(c.before)), "ann")
				stored, _, err := store.Load(background, key)
				require.NoError(t, err)
				require.Greater(t, stored[0].TTL, denied.RetryAfter)
				require.False(t, must(t)(lowered.AllowN(background, ann, 3)).Allowed)
				again, _, err := store.Load(background, key)
				require.NoError(t, err)
				require.Equal(t, stored[0].Version, again[0].Version, "the second denial stores nothing")
				require.EqualValues(t, 1000, must(t)(lowered.Peek(background, ann)).Results[1].Remaining)
			})
		}
	}
}
