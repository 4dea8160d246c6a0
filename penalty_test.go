package sluice_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/memory"
)

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

// After the store's clock has stepped back, nobody is locked out for longer than the penalty, and then for the window.
func TestPenaltyAfterTheClockOfTheStoreStepsBack(t *testing.T) {
	for _, begins := range []bool{false, true} {
		clock := newClock()
		l := newLimiter(t, sluice.Options[call]{}, &memory.Store{Clock: clock.Now}, rulesOf("penalty(fixedwindow 3/15min; for=1h)")...)
		must(t)(l.AllowN(background, ann, 3))
		if begins {
			require.False(t, must(t)(l.Allow(background, ann)).Allowed)
		}
		clock.advance(-300 * time.Hour)
		d := must(t)(l.Allow(background, ann))
		require.False(t, d.Allowed)
		require.Equal(t, time.Hour, d.RetryAfter)
		clock.advance(time.Hour)
		require.True(t, must(t)(l.Allow(background, ann)).Allowed)
	}
}

// A refund during a penalty does not make its record worth evicting.
func TestFloodOfKeysEndsNoPenalty(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, &memory.Store{MaxKeys: 2000}, rulesOf("penalty(fixedwindow 20/15min; for=1h)")...)
	must(t)(l.AllowN(background, ann, 20))
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
	must(t)(l.Refund(background, ann, 18))
	for i := range 20_000 {
		must(t)(l.Allow(background, call{user: fmt.Sprint("flood ", i)}))
	}
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
}
