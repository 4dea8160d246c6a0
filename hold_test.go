package sluice_test

// These tests promise what Hold and Keep return. Those of Do promise how long units are held.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

func TestHoldReleasesOnce(t *testing.T) {
	for name, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, tasks()...)
		_, _, other, err := l.Hold(background, ann)
		require.NoError(t, err)
		d, ctx, release, err := l.Hold(background, ann)
		require.True(t, must(t)(d, err).Allowed)
		require.NoError(t, ctx.Err())
		require.Equal(t, []int64{0, 8}, remaining(t, l, ann), name)

		release()
		release()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.NotErrorIs(t, context.Cause(ctx), sluice.ErrHoldLost)
		require.Equal(t, []int64{1, 8}, remaining(t, l, ann), name)
		other()
		require.Equal(t, []int64{2, 8}, remaining(t, l, ann), name)
	}
}

func TestHoldThatHoldsNothingReturnsItsContext(t *testing.T) {
	shadow := rulesOf("inflight 1 ttl=30s", "gcra 10/h")
	shadow[0].Shadow = true
	gone, cancel := context.WithCancel(background)
	cancel()
	down := newFaultyStore()
	down.err = errNoTable
	for name, test := range map[string]struct {
		ctx     context.Context
		limiter *sluice.Limiter[call]
		holds   int // calls that hold a unit before
	}{
		"a rate":       {background, newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 10/h")...), 0},
		"a denial":     {background, newLimiter(t, sluice.Options[call]{}, nil, tasks()...), 2},
		"a shadow":     {background, newLimiter(t, sluice.Options[call]{}, nil, shadow...), 1},
		"FailOpen":     {background, newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailOpen}, down, tasks()...), 0},
		"an error":     {background, newLimiter(t, sluice.Options[call]{}, down, tasks()...), 0},
		"an ended ctx": {gone, newLimiter(t, sluice.Options[call]{}, newFaultyStore(), tasks()...), 0},
	} {
		for range test.holds {
			_, held, _, err := test.limiter.Hold(background, ann)
			require.NoError(t, err)
			require.NotEqual(t, background, held)
		}
		_, held, release, _ := test.limiter.Hold(test.ctx, ann)
		require.Equal(t, test.ctx, held, name)
		release()
		require.Equal(t, test.ctx.Err(), held.Err(), name)
	}
}

// The key of a held unit has the group and the kind of the policy.
func TestHoldReleasesTheKeyOfTheInput(t *testing.T) {
	for _, store := range memoryStores() {
		kinds := map[bool]algo.Policy{false: sluice.MustPolicy("inflight 3 ttl=30s"), true: sluice.MustPolicy("gcra 5/h")}
		l := newLimiter(t, sluice.Options[call]{Namespace: "n", Group: byUser}, store,
			sluice.Rule[call]{Name: "by kind", PolicyFor: func(in call) (algo.Policy, error) { return kinds[in.write], nil }, Cost: func(in call) int64 { return in.cost }},
			sluice.Rule[call]{Name: "all", Spec: "inflight 3 ttl=30s", Cost: func(in call) int64 { return in.cost }})
		reads, writes, free := call{user: "ann", cost: 2}, call{user: "ann", cost: 2, write: true}, call{user: "ann"}
		for _, c := range []struct {
			in                   call
			during, after, other []int64
		}{
			{reads, []int64{1, 1}, []int64{3, 3}, []int64{3, 3}},
			{writes, []int64{3, 1}, []int64{3, 3}, []int64{3, 3}},
			{free, []int64{3, 3}, []int64{3, 3}, []int64{3, 3}},
		} {
			probe := call{user: "ann", cost: 1}
			d, _, release, err := l.Hold(background, c.in)
			require.True(t, must(t)(d, err).Allowed)
			require.Equal(t, c.during, remaining(t, l, probe))
			release()
			require.Equal(t, c.after, remaining(t, l, probe))
			require.Equal(t, c.other, remaining(t, l, call{user: "bob", cost: 1}))
		}
		require.Equal(t, int64(3), remaining(t, l, call{user: "ann", cost: 1, write: true})[0], "the rate stays charged")
	}
}

// The context of a hold ends with the TTL at the latest, because others get the units then.
func TestHoldEndsWithTheTTLOfUnitsThatWereNotRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := newDistantStore(time.Millisecond)
			o := sluice.Options[call]{Timeout: 20 * time.Second}
			l := newLimiter(t, o, store, rulesOf("inflight 1 ttl="+ttl.String())...)
			_, held, release, err := l.Hold(background, ann)
			require.NoError(t, err)
			time.Sleep(ttl / 2)
			store.hangs.Store(true)
			began := time.Now()
			<-held.Done()
			require.LessOrEqual(t, time.Since(began), ttl)
			require.ErrorIs(t, context.Cause(held), sluice.ErrHoldLost)
			store.hangs.Store(false)
			release()
		})
	}
}

func TestHoldWhoseDecisionTookLongerThanTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, newDistantStore(600*time.Millisecond), rulesOf("inflight 1 ttl=500ms")...)
		d, held, release, err := l.Hold(background, ann)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.ErrorIs(t, context.Cause(held), sluice.ErrHoldLost)
		release()
	})
}

func TestKeepDoesNothingIfNoUnitsAreHeld(t *testing.T) {
	limiter, err := sluice.For(nil, sluice.By("rate", func(name string) string { return name }, "gcra 5/h"))
	require.NoError(t, err)
	reservation, _, err := limiter.Reserve(t.Context(), "ann", 1)
	require.NoError(t, err)
	var none *sluice.Reservation[string]
	for _, r := range []*sluice.Reservation[string]{reservation, none} {
		held, stop := r.Keep(t.Context())
		require.Equal(t, t.Context(), held)
		stop()
		stop()
		require.NoError(t, held.Err())
	}
}
