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

// Kit has the functions of the package of an algorithm with states S, options O and policies P.
type Kit[S any, O options, P policyWith[O]] struct {
	Step, Refund, Charge func(S, time.Time, O) (S, algo.Result)
	Peek                 func(S, time.Time, O) algo.Result
	New                  func(O) (P, error)
	AppendState          func([]byte, S) []byte
	ParseState           func([]byte) (S, error)
	// Model makes an operation in exact numbers. The state is one that a step can return.
	Model func(s S, op policy.Op, now int64, o O) (S, algo.Result)
}

// with returns options with another value of a field.
func with[O any](o O, field string, value any) O {
	reflect.ValueOf(&o).Elem().FieldByName(field).Set(reflect.ValueOf(value))
	return o
}

func limitOf[O any](o O) algo.Limit {
	return reflect.ValueOf(o).FieldByName("Limit").Interface().(algo.Limit)
}

// WithCost returns o with another cost.
func (k *Kit[S, O, P]) WithCost(o O, cost int64) O { return with(o, "Cost", cost) }

// NewWithLimit returns the function New of an algotest.Subject: it makes policies with o and any limit.
func (k *Kit[S, O, P]) NewWithLimit(o O) func(algo.Limit) (algo.Policy, error) {
	return func(l algo.Limit) (algo.Policy, error) { return k.New(with(o, "Limit", l)) }
}

// Recode is the function Recode of an algotest.Subject.
func (k *Kit[S, O, P]) Recode(state []byte) ([]byte, error) {
	s, err := k.ParseState(state)
	return k.AppendState(nil, s), err
}

// BoundOf returns the Bound of the policy with valid options.
func (k *Kit[S, O, P]) BoundOf(o O, interval time.Duration) int64 {
	p, err := k.New(o)
	if err != nil {
		panic(err)
	}
	return p.Bound(interval)
}

// Call calls the function of an operation. Peek returns s.
func (k *Kit[S, O, P]) Call(s S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	if op == policy.Peek {
		return s, k.Peek(s, now, o)
	}
	return [...]func(S, time.Time, O) (S, algo.Result){policy.Step: k.Step, policy.Refund: k.Refund, policy.Charge: k.Charge}[op](s, now, o)
}

// EachOp does each operation on the same state.
func (k *Kit[S, O, P]) EachOp(t testing.TB, s S, now time.Time, o O) {
	t.Helper()
	for _, op := range policy.Ops {
		k.Do(t, s, op, now, o)
	}
}

// Do calls the function of an operation. If the options are not valid, it requires that the function denies.
// Otherwise it requires that the method and the model agree.
func (k *Kit[S, O, P]) Do(t testing.TB, s S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	t.Helper()
	before := k.AppendState([]byte{}, s)
	next, r := k.Call(s, op, now, o)
	p, err := k.New(k.WithCost(o, 0))
	if err != nil || o.Validate() != nil {
		require.Equal(t, s, next)
		require.Equal(t, algo.Result{Cost: r.Cost, RetryAfter: algo.Never}, r, "%+v", o)
		return next, r
	}
	bytes, same, err := op.Apply(p, []byte{}, before, now, r.Cost)
	require.NoError(t, err)
	require.Equal(t, r, same)
	require.Equal(t, k.AppendState([]byte{}, next), bytes)
	require.Equal(t, before, k.AppendState([]byte{}, s), "the argument was modified")
	requireSums(t, r)
	nearest, err := k.ParseState(before)
	require.NoError(t, err)
	want, expected := k.Model(nearest, op, algo.Instant(now), k.WithCost(o, r.Cost))
	require.Equal(t, expected, r, "%v of %d at %v under %+v on %+v", op, r.Cost, now, o, s)
	moves := op == policy.Refund || op == policy.Step && r.Allowed // units of movingwindow, even if nothing is paid
	if r.Paid != 0 || moves && !reflect.DeepEqual(s, next) {
		require.Equal(t, want, next)
	} else {
		require.Equal(t, s, next)
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
