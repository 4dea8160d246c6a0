package policytest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// policyWith is the Policy of an algorithm with options O.
type policyWith[O any] interface {
	algo.Policy
	Options() O
}

// options are the Options of an algorithm.
type options interface{ Validate() error }

// with returns options with another value of a field.
func with[O any](o O, field string, value any) O {
	reflect.ValueOf(&o).Elem().FieldByName(field).Set(reflect.ValueOf(value))
	return o
}

func limitOf[O any](o O) algo.Limit {
	return reflect.ValueOf(o).FieldByName("Limit").Interface().(algo.Limit)
}

func withCost[O any](o O, cost int64) O { return with(o, "Cost", cost) }

// NewWithLimit returns the function New of an algotest.Subject: it makes policies with o and any limit.
func (s *Suite[S, O, P]) NewWithLimit(o O) func(algo.Limit) (algo.Policy, error) {
	return func(l algo.Limit) (algo.Policy, error) { return s.New(with(o, "Limit", l)) }
}

// Recode is the function Recode of an algotest.Subject.
func (s *Suite[S, O, P]) Recode(state []byte) ([]byte, error) {
	parsed, err := s.ParseState(state)
	return s.AppendState(nil, parsed), err
}

// call calls the function of an operation. Peek returns state.
func (s *Suite[S, O, P]) call(state S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	if op == policy.Peek {
		return state, s.Peek(state, now, o)
	}
	return [...]func(S, time.Time, O) (S, algo.Result){policy.Step: s.Step, policy.Refund: s.Refund, policy.Charge: s.Charge}[op](state, now, o)
}

// EachOp does each operation on the same state.
func (s *Suite[S, O, P]) EachOp(t testing.TB, state S, now time.Time, o O) {
	t.Helper()
	for _, op := range policy.Ops {
		s.Do(t, state, op, now, o)
	}
}

// Do calls the function of an operation. If the options are not valid, it requires that the function denies.
// Otherwise it requires that the method and the model agree.
func (s *Suite[S, O, P]) Do(t testing.TB, state S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	t.Helper()
	before := s.AppendState([]byte{}, state)
	next, r := s.call(state, op, now, o)
	p, err := s.New(withCost(o, 0))
	if err != nil || o.Validate() != nil {
		require.Equal(t, state, next)
		require.Equal(t, algo.Result{Cost: r.Cost, RetryAfter: algo.Never}, r, "%+v", o)
		return next, r
	}
	bytes, same, err := op.Apply(p, []byte{}, before, now, r.Cost)
	require.NoError(t, err)
	require.Equal(t, r, same)
	require.Equal(t, s.AppendState([]byte{}, next), bytes)
	require.Equal(t, before, s.AppendState([]byte{}, state), "the argument was modified")
	requireSums(t, r)
	nearest, err := s.ParseState(before)
	require.NoError(t, err)
	want, expected := s.Model(nearest, op, algo.Instant(now), withCost(o, r.Cost))
	require.Equal(t, expected, r, "%v of %d at %v under %+v on %+v", op, r.Cost, now, o, state)
	moves := op == policy.Refund || op == policy.Step && r.Allowed // units of movingwindow, even if nothing is paid
	if r.Paid != 0 || moves && !reflect.DeepEqual(state, next) {
		require.Equal(t, want, next)
	} else {
		require.Equal(t, state, next)
	}
	return next, r
}

// requireSums requires what holds for the result of any operation on any state.
func requireSums(t testing.TB, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	require.GreaterOrEqual(t, min(r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew), time.Duration(0))
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.ResetAfter == 0)
	require.Equal(t, r.NextRefill == 0, r.ResetAfter == 0)
	require.LessOrEqual(t, r.NextRefill, r.ResetAfter)
	require.LessOrEqual(t, (r.ResetAfter - r.Skew).Microseconds(), int64(1<<52), "any debt is refilled within 142 years")
}
