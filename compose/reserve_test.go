package compose_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// ailing is a store that may be out of order for good.
type ailing struct {
	storage.Store
	err error
}

func (s *ailing) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.err != nil {
		return nil, false, s.err
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// errLasting is a failure that trying again does not help, so that tests need not
// wait for a timeout to end.
var errLasting = storage.NotApplied(errors.New("no such table"))

// reserving is a limiter of 10 a minute on a store that can fail.
func reserving(t *testing.T, p compose.FailurePolicy) (*compose.Limiter[call], *ailing) {
	t.Helper()
	s := &ailing{Store: new(memory.Store)}
	l, err := compose.Options[call]{Clock: newVirtual().Now, OnFailure: p}.New(s,
		compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 10/m")})
	require.NoError(t, err)
	return l, s
}

func leftFor(t *testing.T, l *compose.Limiter[call], in call) int64 {
	t.Helper()
	d, err := l.Peek(background, in)
	return must(t, d, err).Remaining
}

// An outage must not let a settlement give back what was never paid.
func TestADegradedReservationIsSettledInFull(t *testing.T) {
	ann := call{user: "ann"}
	for _, p := range []compose.FailurePolicy{compose.FailOpen, compose.FailLocal} {
		for actual, left := range map[int64]int64{0: 6, 1: 5, 3: 3, 5: 1} {
			l, store := reserving(t, p)
			d, err := l.AllowN(background, ann, 4)
			require.True(t, must(t, d, err).Allowed)

			store.err = errLasting
			r, d, err := l.Reserve(background, ann, 3)
			require.True(t, must(t, d, err).Degraded)
			store.err = nil
			_, err = r.Settle(background, actual)
			require.NoError(t, err)
			require.Equal(t, left, leftFor(t, l, ann))
			_, err = r.Settle(background, actual)
			require.ErrorIs(t, err, compose.ErrSettled)
		}
	}
}

func TestASettlementThatFailsMayBeCalledAgain(t *testing.T) {
	ann := call{user: "ann"}
	for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
		l, store := reserving(t, p)
		r, d, err := l.Reserve(background, ann, 8)
		require.True(t, must(t, d, err).Allowed)
		store.err = errLasting
		d, err = r.Settle(background, 3)
		require.Equal(t, p == compose.FailClosed, err != nil)
		require.Equal(t, p != compose.FailClosed, d.Degraded)
		store.err = nil
		_, err = r.Settle(background, 3)
		require.NoError(t, err)
		require.EqualValues(t, 7, leftFor(t, l, ann))
		_, err = r.Settle(background, -1)
		require.ErrorIs(t, err, compose.ErrSettled)
	}
}

func TestASettlementBelowZeroIsTheCallersMistake(t *testing.T) {
	l, _ := reserving(t, compose.FailOpen)
	r, d, err := l.Reserve(background, call{user: "ann"}, 8)
	require.True(t, must(t, d, err).Allowed)
	_, err = r.Settle(background, -1)
	require.ErrorIs(t, err, algo.ErrCost)
	require.EqualValues(t, 2, leftFor(t, l, call{user: "ann"}))
}

// The stand-in of an outage has the estimate: a settlement that cannot reach the store
// takes nothing more of it, however often it is tried.
func TestASettlementIsForTheStoreAlone(t *testing.T) {
	ann := call{user: "ann"}
	for _, degraded := range []bool{false, true} {
		l, store := reserving(t, compose.FailLocal)
		if degraded {
			store.err = errLasting
		}
		r, d, err := l.Reserve(background, ann, 5)
		require.Equal(t, degraded, must(t, d, err).Degraded)
		store.err = errLasting
		for range 3 {
			d, err = r.Settle(background, 8)
			require.True(t, must(t, d, err).Degraded)
		}
		d, err = l.AllowN(background, ann, 5)
		require.True(t, must(t, d, err).Allowed, "there were 10")

		store.err = nil
		_, err = r.Settle(background, 8)
		require.NoError(t, err)
		require.EqualValues(t, 2, leftFor(t, l, ann))
	}
}

func TestAShadowThatDeniedIsNotSettled(t *testing.T) {
	for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
		l, err := compose.Options[call]{Clock: newVirtual().Now}.New(store,
			compose.Rule[call]{Name: "real", Policy: limitOf(t, "fixedwindow 1000/h")},
			compose.Rule[call]{Name: "shadow", Policy: limitOf(t, "fixedwindow 5/h"), Shadow: true})
		require.NoError(t, err)
		d, err := l.AllowN(background, call{}, 4)
		require.True(t, must(t, d, err).Allowed)
		for _, actual := range []int64{1, 4} {
			r, _, err := l.Reserve(background, call{}, 2)
			require.NoError(t, err)
			require.Zero(t, r.Decision.Results[1].Paid, "there is room for 1")
			d, err = r.Settle(background, actual)
			require.Len(t, must(t, d, err).Results, 1)
		}
		d, err = l.Peek(background, call{})
		require.EqualValues(t, 1000-4-1-4, must(t, d, err).Results[0].Remaining)
		require.EqualValues(t, 1, d.Results[1].Remaining)
	}
}

// What a reservation took of the stand-in, and did not use, is there again.
func TestTheStandInGetsBackWhatWasNotUsed(t *testing.T) {
	ann := call{user: "ann"}
	l, store := reserving(t, compose.FailLocal)
	store.err = errLasting
	for range 20 {
		r, d, err := l.Reserve(background, ann, 6)
		require.True(t, must(t, d, err).Allowed)
		_, err = r.Settle(background, 0)
		require.NoError(t, err)
	}
	r, d, err := l.Reserve(background, ann, 6)
	require.True(t, must(t, d, err).Allowed)
	for range 3 {
		d, err = r.Settle(background, 2) // the store is still away
		require.True(t, must(t, d, err).Degraded)
	}
	d, err = l.AllowN(background, ann, 8)
	require.True(t, must(t, d, err).Allowed, "2 of 10 were used")
	d, err = l.Allow(background, ann)
	require.False(t, must(t, d, err).Allowed)
}

// An input may change between the two, as the Pattern of a request does that a mux fills
// in: what was paid is settled all the same, and nothing else.
func TestASettlementAsksTheRulesNothing(t *testing.T) {
	small, large := limitOf(t, "fixedwindow 100/h"), limitOf(t, "fixedwindow 1000/h")
	for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
		calls := map[string]int{}
		l, err := compose.Options[*call]{Clock: newVirtual().Now, Group: func(c *call) string { calls["group"]++; return c.resource }}.New(store,
			compose.Rule[*call]{
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
		require.NoError(t, err)
		for actual, left := range map[int64]int64{0: 100, 1: 95, 4: 80, 7: 65} {
			clear(calls)
			in := &call{user: "ann", resource: "printer", cost: 5}
			r, d, err := l.Reserve(background, in, 4)
			require.True(t, must(t, d, err).Allowed)
			*in = call{user: "bob", resource: "scanner", cost: -7, write: true}
			_, err = r.Settle(background, actual)
			require.NoError(t, err)
			require.Equal(t, map[string]int{"group": 1, "key": 1, "policy": 1, "cost": 1}, calls)

			d, err = l.Peek(background, &call{user: "ann", resource: "printer", cost: 5})
			require.Equal(t, left, must(t, d, err).Remaining)
			d, err = l.Peek(background, &call{user: "bob", resource: "scanner", cost: 5, write: true})
			require.EqualValues(t, 1000, must(t, d, err).Remaining)
			require.NoError(t, l.Reset(background, &call{user: "ann", resource: "printer"}))
		}
	}
}

// A deferred settlement after a denial, for instance.
func TestNothingIsSettledWhereNothingWasReserved(t *testing.T) {
	for _, r := range []*compose.Reservation[call]{nil, {}} {
		_, err := r.Settle(background, 0)
		require.EqualError(t, err, "compose: there is no reservation to settle")
		_, err = r.SettleFor(background, call{})
		require.EqualError(t, err, "compose: there is no reservation to settle")
	}
}

// usage is an input for rules that go by several units.
type usage struct{ read, written int64 }

// metering is a limiter of 10 calls, and of 100 units read and written each.
func metering(t *testing.T, o compose.Options[usage], store storage.Store) *compose.Limiter[usage] {
	t.Helper()
	o.Clock = newVirtual().Now
	l, err := o.New(store,
		compose.Rule[usage]{Name: "calls", Policy: limitOf(t, "fixedwindow 10/h")},
		compose.Rule[usage]{Name: "read", Policy: limitOf(t, "fixedwindow 100/h"), Cost: func(u usage) int64 { return u.read }},
		compose.Rule[usage]{Name: "written", Policy: limitOf(t, "gcra 100/h"), Cost: func(u usage) int64 { return u.written }})
	require.NoError(t, err)
	return l
}

// left is what a limiter has for a call of a unit each.
func left(t *testing.T, l *compose.Limiter[usage]) (remaining [3]int64) {
	t.Helper()
	d, err := l.Peek(background, usage{1, 1})
	for i, r := range must(t, d, err).Results {
		remaining[i] = r.Remaining
	}
	return remaining
}

func TestASettlementByUnitsCorrectsEachRule(t *testing.T) {
	for _, c := range []struct {
		actual usage
		op     compose.Op // empty: nothing is written
		costs  []int64
		left   [3]int64
	}{
		{usage{20, 30}, "", nil, [3]int64{8, 60, 40}},
		{usage{5, 30}, compose.OpRefund, []int64{30}, [3]int64{8, 90, 40}},
		{usage{0, 0}, compose.OpRefund, []int64{40, 60}, [3]int64{8, 100, 100}},
		{usage{25, 45}, compose.OpCharge, []int64{10, 30}, [3]int64{8, 50, 10}},
		{usage{1, 60}, compose.OpCharge, []int64{-38, 60}, [3]int64{8, 98, -20}},
	} {
		for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
			var ops []compose.Op
			l := metering(t, compose.Options[usage]{Observer: func(e compose.Event) { ops = append(ops, e.Op) }}, store)
			r, d, err := l.Reserve(background, usage{20, 30}, 2)
			require.True(t, must(t, d, err).Allowed)
			ops = nil
			d, err = r.SettleFor(background, c.actual)
			must(t, d, err)
			if c.op == "" {
				require.Empty(t, ops)
			} else {
				require.Equal(t, []compose.Op{c.op}, ops)
				for i, cost := range c.costs {
					require.Equal(t, cost, d.Results[i].Cost)
				}
				require.Len(t, d.Results, len(c.costs))
			}
			require.Equal(t, c.left, left(t, l), "%+v", c)
			_, err = r.SettleFor(background, usage{})
			require.ErrorIs(t, err, compose.ErrSettled)
		}
	}
}

func TestASettlementByUnitsInAnOutage(t *testing.T) {
	s := &ailing{Store: new(memory.Store)}
	l := metering(t, compose.Options[usage]{OnFailure: compose.FailLocal}, s)
	s.err = errLasting
	r, d, err := l.Reserve(background, usage{20, 90}, 1)
	require.True(t, must(t, d, err).Degraded)
	_, err = r.SettleFor(background, usage{-1, 0})
	require.ErrorIs(t, err, algo.ErrCost)
	d, err = r.SettleFor(background, usage{30, 10})
	require.True(t, must(t, d, err).Degraded)
	d, err = l.Allow(background, usage{0, 90})
	require.True(t, must(t, d, err).Allowed, "the stand-in has 80 of 90 back")
	s.err = nil
	d, err = r.SettleFor(background, usage{30, 10})
	require.False(t, must(t, d, err).Degraded)
	require.Equal(t, [3]int64{9, 70, 90}, left(t, l), "all of it is charged")
}

// An estimate of 0 is an estimate like any other: what was used is charged.
func TestAnEstimateOfZeroIsSettledInFull(t *testing.T) {
	for _, c := range []struct {
		estimate, actual usage
		n                int64
		costs            []int64 // of the correction
		left             [3]int64
	}{
		{usage{20, 0}, usage{10, 50}, 1, []int64{-10, 50}, [3]int64{9, 90, 50}},
		{usage{20, 0}, usage{20, 90_000}, 1, []int64{90_000}, [3]int64{9, 80, 100 - 90_000}},
		{usage{0, 0}, usage{30, 90_000}, 1, []int64{30, 90_000}, [3]int64{9, 70, 100 - 90_000}},
		{usage{0, 0}, usage{10, 20}, 3, []int64{30, 60}, [3]int64{7, 70, 40}},
		{usage{0, 20}, usage{0, 5}, 2, []int64{30}, [3]int64{8, 100, 90}},
		{usage{0, 0}, usage{0, 0}, 2, nil, [3]int64{8, 100, 100}},
	} {
		for _, store := range []storage.Store{nil, swapOnly{new(memory.Store)}} {
			l := metering(t, compose.Options[usage]{}, store)
			r, d, err := l.Reserve(background, c.estimate, c.n)
			require.True(t, must(t, d, err).Allowed)
			d, err = r.SettleFor(background, c.actual)
			must(t, d, err)
			for i, cost := range c.costs {
				require.Equal(t, cost, d.Results[i].Cost, "%+v", c)
			}
			require.Equal(t, c.left, left(t, l), "%+v", c)
			_, err = r.SettleFor(background, c.actual)
			require.ErrorIs(t, err, compose.ErrSettled)
		}
	}
}

// Calls that were free stay free, however many there are.
func TestASettlementByCallsOfAnEstimateOfZero(t *testing.T) {
	l := metering(t, compose.Options[usage]{}, nil)
	r, d, err := l.Reserve(background, usage{read: 20}, 1)
	require.True(t, must(t, d, err).Allowed)
	d, err = r.Settle(background, 3)
	require.Len(t, must(t, d, err).Results, 2)
	require.Equal(t, [3]int64{7, 40, 100}, left(t, l))
}

// With nothing to pay there is nothing to ask the store, so that an outage shows only
// when the actual cost is charged.
func TestAnEstimateThatIsFreeUnderAllRules(t *testing.T) {
	for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
		store := &ailing{Store: new(memory.Store)}
		l, err := compose.Options[call]{Clock: newVirtual().Now, OnFailure: p}.New(store,
			compose.Rule[call]{Name: "tokens", Key: byUser, Policy: limitOf(t, "gcra 100000/d"), Cost: func(c call) int64 { return c.cost }})
		require.NoError(t, err)
		store.err = errLasting
		ann := call{user: "ann"}
		r, d, err := l.Reserve(background, ann, 1)
		require.True(t, must(t, d, err).Allowed)
		require.Empty(t, d.Results)
		ann.cost = 90_000
		d, err = r.SettleFor(background, ann)
		require.True(t, err != nil || d.Degraded, "the store is away")
		store.err = nil
		d, err = r.SettleFor(background, ann)
		require.False(t, must(t, d, err).Degraded)
		ann.cost = 1
		require.EqualValues(t, 10_000, leftFor(t, l, ann))
	}
}

func TestAnEstimateOfZeroInAnOutage(t *testing.T) {
	for _, p := range []compose.FailurePolicy{compose.FailOpen, compose.FailLocal} {
		store := &ailing{Store: new(memory.Store), err: errLasting}
		l := metering(t, compose.Options[usage]{OnFailure: p}, store)
		r, d, err := l.Reserve(background, usage{20, 0}, 1)
		require.True(t, must(t, d, err).Degraded)
		store.err = nil
		d, err = r.SettleFor(background, usage{30, 90_000})
		require.False(t, must(t, d, err).Degraded)
		require.Equal(t, [3]int64{9, 70, 100 - 90_000}, left(t, l), "all of it is charged")
	}
}

func TestAnEstimateOfZeroUnderAShadowIsSettled(t *testing.T) {
	l, err := compose.Options[call]{Clock: newVirtual().Now}.New(nil,
		compose.Rule[call]{Name: "trial", Policy: limitOf(t, "gcra 10/h"), Cost: func(c call) int64 { return c.cost }, Shadow: true})
	require.NoError(t, err)
	r, d, err := l.Reserve(background, call{}, 1)
	require.True(t, must(t, d, err).Allowed)
	_, err = r.SettleFor(background, call{cost: 7})
	require.NoError(t, err)
	d, err = l.Peek(background, call{cost: 1})
	require.EqualValues(t, 3, must(t, d, err).Results[0].Remaining)
}

// The policy and the key are those of the estimate, whatever has become of the input.
func TestAnEstimateOfZeroKeepsItsPolicyAndKey(t *testing.T) {
	small, large := limitOf(t, "fixedwindow 100/h"), limitOf(t, "fixedwindow 1000/h")
	l, err := compose.Options[*call]{Clock: newVirtual().Now}.New(nil, compose.Rule[*call]{
		Name: "r", Key: func(c *call) string { return c.user }, Cost: func(c *call) int64 { return c.cost },
		PolicyFor: func(c *call) (algo.Policy, error) {
			if c.write {
				return large, nil
			}
			return small, nil
		},
	})
	require.NoError(t, err)
	in := &call{user: "ann"}
	r, d, err := l.Reserve(background, in, 1)
	require.True(t, must(t, d, err).Allowed)
	*in = call{user: "bob", write: true, cost: 90_000}
	d, err = r.SettleFor(background, in)
	require.Equal(t, "ann", must(t, d, err).Results[0].Key)
	require.Equal(t, small, d.Results[0].Policy)
	require.EqualValues(t, 90_000, d.Results[0].Paid)
}

func TestAReservationIsOfAtLeastOneCall(t *testing.T) {
	l, _ := reserving(t, compose.FailOpen)
	r, d, err := l.Reserve(background, call{user: "ann"}, 0)
	require.EqualError(t, err, "compose: n must be at least 1, got 0")
	require.Nil(t, r)
	require.False(t, d.Allowed)
}

func TestASettlementWithAContextThatHasEndedIsMadeUpFor(t *testing.T) {
	l, _ := reserving(t, compose.FailOpen)
	r, d, err := l.Reserve(background, call{user: "ann"}, 4)
	require.True(t, must(t, d, err).Allowed)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = r.Settle(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 6, leftFor(t, l, call{user: "ann"}), "the estimate")
	_, err = r.Settle(context.WithoutCancel(ctx), 1)
	require.NoError(t, err)
	require.EqualValues(t, 9, leftFor(t, l, call{user: "ann"}))
}
