package sluice_test

// These tests promise that a settled reservation leaves exactly the actual cost in the store,
// whatever the estimate was, and what happens if the store fails in between.

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// newReserving returns a limiter of 10 a minute on a store that can fail.
func newReserving(t *testing.T, p sluice.FailurePolicy) (*sluice.Limiter[call], *faultyStore) {
	t.Helper()
	s := newFaultyStore()
	return newLimiter(t, sluice.Options[call]{Clock: newClock().Now, OnFailure: p}, s, rulesOf("gcra 10/m")...), s
}

// reserve makes a reservation that is allowed.
func reserve[T any](t *testing.T, l *sluice.Limiter[T], in T, n int64) *sluice.Reservation[T] {
	t.Helper()
	r, d, err := l.Reserve(background, in, n)
	require.True(t, must(t)(d, err).Allowed)
	return r
}

func TestSettleCorrectsTheEstimateOnce(t *testing.T) {
	for _, p := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen} {
		l, _ := newReserving(t, p)
		for _, c := range []struct{ estimate, actual, left int64 }{{4, 1, 9}, {4, 4, 5}, {2, 9, -4}} {
			r := reserve(t, l, ann, c.estimate)
			_, err := r.Settle(background, -1)
			require.EqualError(t, err, "sluice: Settle takes 0 calls or more, got -1")
			require.ErrorIs(t, err, algo.ErrCost)
			must(t)(r.Settle(background, c.actual))
			for _, again := range []int64{c.actual, -1} {
				_, err = r.Settle(background, again)
				require.ErrorIs(t, err, sluice.ErrSettled)
			}
			require.Equal(t, []int64{c.left}, remaining(t, l, ann))
		}
		r, d, err := l.Reserve(background, ann, 1)
		require.False(t, must(t)(d, err).Allowed)
		require.Nil(t, r)
	}
	for _, r := range []*sluice.Reservation[call]{nil, {}} { // a deferred Settle after a denial
		_, err := r.Settle(background, 0)
		require.EqualError(t, err, "sluice: there is no reservation, because the calls were denied or Reserve failed; use it only if Decision.Allowed is true")
		_, err = r.SettleFor(background, call{})
		require.EqualError(t, err, "sluice: there is no reservation, because the calls were denied or Reserve failed; use it only if Decision.Allowed is true")
	}
}

func TestSettleThatFailsCanBeCalledAgain(t *testing.T) {
	for _, p := range failurePolicies {
		l, store := newReserving(t, p)
		r := reserve(t, l, ann, 8)
		store.err = errNoTable
		d, err := r.Settle(background, 3)
		require.Equal(t, p == sluice.FailClosed, err != nil)
		require.Equal(t, p != sluice.FailClosed, d.Degraded)
		store.err = nil
		_, err = r.Settle(ended, 3)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []int64{2}, remaining(t, l, ann), "the estimate stays paid")
		must(t)(r.Settle(context.WithoutCancel(ended), 3))
		require.Equal(t, []int64{7}, remaining(t, l, ann))
	}
}

// A correction that cannot reach the store gives unused units of the estimate back to the local limiter, once. It takes no more from
// it. The local limiter has no estimate that the store has charged. After the outage, the store is charged in full: an outage must not
// make Settle refund units that were never charged.
func TestSettleOfAnOutageGivesUnusedUnitsBackToTheLocalLimiterOnce(t *testing.T) {
	for _, c := range []struct {
		degraded                bool  // the outage begins before Reserve
		estimate, actual, local int64 // local is what the local limiter has left
	}{{false, 5, 8, 6}, {false, 5, 2, 6}, {true, 5, 8, 1}, {true, 6, 2, 4}} {
		l, store := newReserving(t, sluice.FailLocal)
		store.err = errNoTable
		must(t)(reserve(t, l, ann, 10).Settle(background, 0))
		must(t)(l.AllowN(background, ann, 4))
		if !c.degraded {
			store.err = nil
		}
		r := reserve(t, l, ann, c.estimate)
		require.Equal(t, c.degraded, r.Decision.Degraded)
		store.err = errNoTable
		for range 3 {
			require.True(t, must(t)(r.Settle(background, c.actual)).Degraded)
		}
		require.True(t, must(t)(l.AllowN(background, ann, c.local)).Allowed, "%+v", c)
		require.False(t, must(t)(l.Allow(background, ann)).Allowed, "%+v", c)
		store.err = nil
		must(t)(r.Settle(background, c.actual))
		require.Equal(t, []int64{10 - c.actual}, remaining(t, l, ann), "%+v", c)
	}
}

func TestSettleAfterTheEndOfItsContextCanBeCalledAgainForTheLocalLimiter(t *testing.T) {
	for _, spec := range []string{"gcra 10/h burst=10", "inflight 10 ttl=30s"} {
		store := newFaultyStore()
		store.err = errNoTable
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf(spec)...)
		r := reserve(t, l, ann, 10)
		for range 2 {
			_, err := r.Settle(ended, 0)
			require.ErrorIs(t, err, context.Canceled)
		}
		must(t)(r.Settle(background, 0))
		require.Equal(t, []int64{10}, remaining(t, l, ann))
	}
}

func TestSettleLeavesAShadowRuleThatDenied(t *testing.T) {
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{Clock: newClock().Now}, store,
			sluice.Rule[call]{Name: "real", Spec: "fixedwindow 1000/h"},
			sluice.Rule[call]{Name: "shadow", Spec: "fixedwindow 5/h", Shadow: true})
		require.True(t, must(t)(l.AllowN(background, call{}, 4)).Allowed)
		for _, actual := range []int64{1, 4} {
			r := reserve(t, l, call{}, 2)
			require.Zero(t, r.Decision.Results[1].Paid)
			require.Len(t, must(t)(r.Settle(background, actual)).Results, 1)
		}
		require.Equal(t, []int64{1000 - 4 - 1 - 4, 1}, remaining(t, l, call{}))
	}
}

// The input can change between Reserve and Settle, as a mux changes the Pattern of a request.
func TestSettleUsesThePolicyKeyAndCostOfTheReservation(t *testing.T) {
	small, large := mustPolicy("fixedwindow 100/h"), mustPolicy("fixedwindow 1000/h")
	for _, store := range memoryStores() {
		calls := map[string]int{}
		l := newLimiter(t, sluice.Options[*call]{Clock: newClock().Now, Group: func(c *call) string { calls["group"]++; return c.resource }}, store,
			sluice.Rule[*call]{
				Name: "r",
				Key:  func(c *call) string { calls["key"]++; return c.user },
				PolicyFor: func(c *call) (algo.Policy, error) {
					calls["policy"]++
					if c.write {
						return large, nil
					}
					return small, nil
				},
				Cost: func(c *call) int64 { calls["cost"]++; return c.cost },
			})
		for actual, left := range map[int64]int64{0: 100, 1: 95, 4: 80, 7: 65} {
			clear(calls)
			in := &call{user: "ann", resource: "printer", cost: 5}
			r := reserve(t, l, in, 4)
			*in = call{user: "bob", resource: "scanner", cost: -7, write: true}
			must(t)(r.Settle(background, actual))
			require.Equal(t, map[string]int{"group": 1, "key": 1, "policy": 1, "cost": 1}, calls)
			require.Equal(t, []int64{left}, remaining(t, l, &call{user: "ann", resource: "printer", cost: 5}))
			require.Equal(t, []int64{1000}, remaining(t, l, &call{user: "bob", resource: "scanner", cost: 5, write: true}))
			require.NoError(t, l.Reset(background, &call{user: "ann", resource: "printer"}))
		}
		in := &call{user: "ann"}
		r := reserve(t, l, in, 1) // an estimate of 0
		*in = call{user: "bob", write: true, cost: 90_000}
		d := must(t)(r.SettleFor(background, in))
		require.Equal(t, "ann", d.Results[0].Key)
		require.Equal(t, small, d.Results[0].Policy)
		require.EqualValues(t, 90_000, d.Results[0].Paid)
	}
}

// usage is an input for rules that count different units.
type usage struct{ read, written int64 }

// newMetering returns a limiter of 10 calls, and of 100 units read and written each.
func newMetering(t *testing.T, o sluice.Options[usage], store storage.Store) *sluice.Limiter[usage] {
	t.Helper()
	o.Clock = newClock().Now
	return newLimiter(t, o, store,
		sluice.Rule[usage]{Name: "calls", Spec: "fixedwindow 10/h"},
		sluice.Rule[usage]{Name: "read", Spec: "fixedwindow 100/h", Cost: func(u usage) int64 { return u.read }},
		sluice.Rule[usage]{Name: "written", Spec: "gcra 100/h", Cost: func(u usage) int64 { return u.written }})
}

func TestSettleForCorrectsEachRuleToItsCost(t *testing.T) {
	for _, c := range []struct {
		estimate, actual usage
		n                int64
		op               sluice.Op // of the correction; empty if nothing is written
		costs            []int64   // of the correction
		left             []int64
	}{
		{usage{20, 30}, usage{20, 30}, 2, "", nil, []int64{8, 60, 40}},
		{usage{20, 30}, usage{5, 30}, 2, sluice.OpRefund, []int64{30}, []int64{8, 90, 40}},
		{usage{20, 30}, usage{0, 0}, 2, sluice.OpRefund, []int64{40, 60}, []int64{8, 100, 100}},
		{usage{20, 30}, usage{25, 45}, 2, sluice.OpCharge, []int64{10, 30}, []int64{8, 50, 10}},
		{usage{20, 30}, usage{1, 60}, 2, sluice.OpCharge, []int64{-38, 60}, []int64{8, 98, -20}},
		{usage{20, 0}, usage{10, 50}, 1, sluice.OpCharge, []int64{-10, 50}, []int64{9, 90, 50}},
		{usage{20, 0}, usage{20, 90_000}, 1, sluice.OpCharge, []int64{90_000}, []int64{9, 80, 100 - 90_000}},
		{usage{0, 0}, usage{30, 90_000}, 1, sluice.OpCharge, []int64{30, 90_000}, []int64{9, 70, 100 - 90_000}},
		{usage{0, 0}, usage{10, 20}, 3, sluice.OpCharge, []int64{30, 60}, []int64{7, 70, 40}},
		{usage{0, 20}, usage{0, 5}, 2, sluice.OpRefund, []int64{30}, []int64{8, 100, 90}},
		{usage{0, 0}, usage{0, 0}, 2, "", nil, []int64{8, 100, 100}},
	} {
		for _, store := range []storage.Store{nil, newFaultyStore()} {
			var ops []sluice.Op
			l := newMetering(t, sluice.Options[usage]{Observer: func(_ context.Context, e sluice.Event) { ops = append(ops, e.Op) }}, store)
			r := reserve(t, l, c.estimate, c.n)
			ops = nil
			d := must(t)(r.SettleFor(background, c.actual))
			if c.op == "" {
				require.Empty(t, ops)
			} else {
				require.Equal(t, []sluice.Op{c.op}, ops)
				require.Len(t, d.Results, len(c.costs))
				for i, cost := range c.costs {
					require.Equal(t, cost, d.Results[i].Cost, "%+v", c)
				}
			}
			require.Equal(t, c.left, remaining(t, l, usage{1, 1})[:], "%+v", c)
			_, err := r.SettleFor(background, usage{})
			require.ErrorIs(t, err, sluice.ErrSettled)
		}
	}
	l := newMetering(t, sluice.Options[usage]{}, nil)
	d := must(t)(reserve(t, l, usage{read: 20}, 1).Settle(background, 3))
	require.Len(t, d.Results, 2, "Settle leaves calls free that were free")
	require.Equal(t, []int64{7, 40, 100}, remaining(t, l, usage{1, 1}))
}

func TestSettleForAfterAnOutage(t *testing.T) {
	store := newFaultyStore()
	l := newMetering(t, sluice.Options[usage]{OnFailure: sluice.FailLocal}, store)
	store.err = errNoTable
	r := reserve(t, l, usage{20, 90}, 1)
	require.True(t, r.Decision.Degraded)
	_, err := r.SettleFor(background, usage{-1, 0})
	require.ErrorIs(t, err, algo.ErrCost)
	require.True(t, must(t)(r.SettleFor(background, usage{30, 10})).Degraded)
	require.True(t, must(t)(l.Allow(background, usage{0, 90})).Allowed, "the local limiter has 80 of 90 back")
	zero := reserve(t, l, usage{20, 0}, 1)
	store.err = nil
	require.False(t, must(t)(r.SettleFor(background, usage{30, 10})).Degraded)
	require.Equal(t, []int64{9, 70, 90}, remaining(t, l, usage{1, 1}), "the store is charged in full")
	must(t)(zero.SettleFor(background, usage{30, 90_000}))
	require.Equal(t, []int64{8, 40, 90 - 90_000}, remaining(t, l, usage{1, 1}))
}

// An estimate of 0 under all rules needs no store, so an outage shows only in SettleFor.
func TestEstimateOfZeroUnderAllRulesIsSettledInFull(t *testing.T) {
	for _, p := range failurePolicies {
		for _, shadow := range []bool{false, true} {
			store := newFaultyStore()
			l := newLimiter(t, sluice.Options[call]{Clock: newClock().Now, OnFailure: p}, store,
				sluice.Rule[call]{Name: "tokens", Key: byUser, Spec: "gcra 100000/d", Cost: func(c call) int64 { return c.cost }, Shadow: shadow})
			store.err = errNoTable
			r := reserve(t, l, ann, 1)
			require.Empty(t, r.Decision.Results)
			actual := call{user: "ann", cost: 90_000}
			d, err := r.SettleFor(background, actual)
			require.True(t, err != nil || d.Degraded)
			store.err = nil
			require.False(t, must(t)(r.SettleFor(background, actual)).Degraded)
			require.Equal(t, []int64{10_000}, remaining(t, l, call{user: "ann", cost: 1}))
		}
	}
}
