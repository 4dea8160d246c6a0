// Package policytest has tests that the packages of the four algorithms share. Laws that
// hold for any algorithm are in algo/algotest; these tests also use the types of the packages.
package policytest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// policyWith is the Policy of an algorithm with options O.
type policyWith[O any] interface {
	algo.Policy
	Options() O
}

// options are the Options of an algorithm.
type options interface{ Validate() error }

// Kit is the package of an algorithm with states S, options O and policies P.
type Kit[S any, O options, P policyWith[O]] struct {
	Step, Refund, Charge func(S, time.Time, O) (S, algo.Result)
	Peek                 func(S, time.Time, O) algo.Result
	New                  func(O) (P, error)
	AppendState          func([]byte, S) []byte
	ParseState           func([]byte) (S, error)
}

// with returns options with another value of a field.
func with[O any](o O, field string, value any) O {
	reflect.ValueOf(&o).Elem().FieldByName(field).Set(reflect.ValueOf(value))
	return o
}

// WithCost returns o with another cost.
func (k Kit[S, O, P]) WithCost(o O, cost int64) O { return with(o, "Cost", cost) }

// NewWithLimit returns the function New of an algotest.Subject: it makes policies with o and any limit.
func (k Kit[S, O, P]) NewWithLimit(o O) func(algo.Limit) (algo.Policy, error) {
	return func(l algo.Limit) (algo.Policy, error) { return k.New(with(o, "Limit", l)) }
}

// Recode is the function Recode of an algotest.Subject.
func (k Kit[S, O, P]) Recode(state []byte) ([]byte, error) {
	s, err := k.ParseState(state)
	return k.AppendState(nil, s), err
}

// Bound returns the Bound of the policy with valid options.
func (k Kit[S, O, P]) Bound(o O, interval time.Duration) int64 {
	p, err := k.New(o)
	if err != nil {
		panic(err)
	}
	return p.Bound(interval)
}

// Wait returns the time from an instant to another.
func Wait(until *big.Int, from int64) time.Duration {
	return time.Duration(until.Int64()-from) * time.Microsecond
}

// Call calls the function of an operation. Peek returns s.
func (k Kit[S, O, P]) Call(s S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	if op == policy.Peek {
		return s, k.Peek(s, now, o)
	}
	return [...]func(S, time.Time, O) (S, algo.Result){policy.Step: k.Step, policy.Refund: k.Refund, policy.Charge: k.Charge}[op](s, now, o)
}

// CallAt is Call at an instant, with a cost.
func (k Kit[S, O, P]) CallAt(s S, op policy.Op, at int64, o O, cost int64) (S, algo.Result) {
	return k.Call(s, op, time.UnixMicro(at), k.WithCost(o, cost))
}

// CallBoth calls the function and the method, and requires that they agree.
func (k Kit[S, O, P]) CallBoth(t testing.TB, s S, op policy.Op, now time.Time, o O) (S, algo.Result) {
	t.Helper()
	next, r := k.Call(s, op, now, o)
	p, err := k.New(k.WithCost(o, 0))
	require.NoError(t, err)
	bytes, same, err := op.Apply(p, []byte{}, k.AppendState(nil, s), now, r.Cost)
	require.NoError(t, err)
	require.Equal(t, r, same)
	require.Equal(t, k.AppendState([]byte{}, next), bytes)
	return next, r
}

// EachOp calls the function and the method of each operation. If the options are not valid, it requires that
// the function denies. Otherwise it calls check with the next state and the result.
func (k Kit[S, O, P]) EachOp(t testing.TB, s S, now time.Time, o O, check func(op policy.Op, next S, r algo.Result)) {
	t.Helper()
	invalid := o.Validate()
	for _, op := range policy.Ops {
		if invalid != nil {
			k.RequireDenies(t, s, op, now, o)
			continue
		}
		next, r := k.CallBoth(t, s, op, now, o)
		RequireSums(t, r)
		if r.Paid == 0 {
			require.Equal(t, s, next)
		}
		check(op, next, r)
	}
}

// RequireSums requires what holds for the result of any operation on any state.
func RequireSums(t testing.TB, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	require.GreaterOrEqual(t, min(r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew), time.Duration(0))
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.ResetAfter == 0)
	require.Equal(t, r.NextRefill == 0, r.ResetAfter == 0)
	require.LessOrEqual(t, r.NextRefill, r.ResetAfter)
}

// RequireWaits requires that RetryAfter, NextRefill and ResetAfter are exact, if they end before
// algo.MaxInstant.
func (k Kit[S, O, P]) RequireWaits(t testing.TB, s S, now int64, o O) {
	t.Helper()
	r := k.Peek(s, time.UnixMicro(now), o)
	check := func(wait time.Duration, ended func(r algo.Result) bool) {
		t.Helper()
		if wait < 1 || wait.Microseconds() > algo.MaxInstant-now {
			return
		}
		end := time.UnixMicro(now + wait.Microseconds())
		require.True(t, ended(k.Peek(s, end, o)), "after %v", wait)
		require.False(t, ended(k.Peek(s, end.Add(-time.Microsecond), o)), "1us before %v", wait)
	}
	check(r.RetryAfter, func(r algo.Result) bool { return r.Allowed })
	check(r.NextRefill, func(at algo.Result) bool { return at.Remaining > r.Remaining })
	check(r.ResetAfter, func(r algo.Result) bool { return r.Fresh })
}

// InvalidOptions requires that New returns an error with the text in the key, and that all
// operations deny with these options. used is a state with units in use.
func (k Kit[S, O, P]) InvalidOptions(t *testing.T, used S, invalid map[string]O) {
	t.Helper()
	var fresh S
	for text, o := range invalid {
		p, err := k.New(o)
		require.ErrorContains(t, err, text)
		require.Zero(t, p)
		require.Equal(t, strings.Contains(text, "Cost is -1"), errors.Is(err, algo.ErrCost))
		for _, s := range []S{fresh, used} {
			for _, op := range policy.Ops {
				k.RequireDenies(t, s, op, time.UnixMicro(10), o)
			}
		}
	}
}

// RequireDenies requires that an operation with invalid options denies for ever.
func (k Kit[S, O, P]) RequireDenies(t testing.TB, s S, op policy.Op, now time.Time, o O) {
	t.Helper()
	next, r := k.Call(s, op, now, o)
	require.Equal(t, s, next)
	require.Equal(t, algo.Result{Cost: r.Cost, RetryAfter: algo.Never}, r, "%+v", o)
}

// ZeroPolicyDenies requires that the zero policy denies everything.
func ZeroPolicyDenies(t *testing.T, zero algo.Policy) {
	t.Helper()
	next, r, err := zero.Step(nil, nil, time.Unix(1, 0), 1)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
	require.Zero(t, zero.Bound(time.Hour))
}

// NewRefusesCosts requires that a policy has no cost in its options, and that the error says what to do.
func (k Kit[S, O, P]) NewRefusesCosts(t *testing.T, o O) {
	t.Helper()
	for _, cost := range []int64{2, math.MaxInt64} {
		p, err := k.New(k.WithCost(o, cost))
		require.ErrorContains(t, err, fmt.Sprintf("Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", cost))
		require.Zero(t, p)
	}
	_, err := k.New(k.WithCost(o, 1))
	require.NoError(t, err)
}

// Specs requires that policies have these specs, and the limits of their options.
func (k Kit[S, O, P]) Specs(t *testing.T, limit func(O) algo.Limit, specs map[string]O) {
	t.Helper()
	for want, o := range specs {
		p, err := k.New(o)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		require.Equal(t, o, p.Options())
		require.Equal(t, limit(o), p.Limit())
	}
}

// Start is the time of the first step of the golden states.
var Start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Golden is an encoded state after steps with these costs, 411.522617ms apart.
type Golden[S, O any] struct {
	Options O
	Hex     string
	State   S
}

// GoldenStates requires that the encoding of states does not change. Stores hold such states.
func (k Kit[S, O, P]) GoldenStates(t *testing.T, costs []int64, golden []Golden[S, O]) {
	t.Helper()
	for _, g := range golden {
		p, err := k.New(g.Options)
		require.NoError(t, err)
		var state []byte
		for i, cost := range costs {
			state, _, err = p.Step(nil, state, Start.Add(time.Duration(i)*411_522_617), cost)
			require.NoError(t, err)
		}
		require.Equal(t, unhex(t, g.Hex), state, "%v: %x", p, state)
		s, err := k.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.State, s)
		require.Equal(t, append([]byte("dst"), state...), k.AppendState([]byte("dst"), s))
	}
}

// ParseErrors requires that ParseState returns these errors for bytes in hex.
func (k Kit[S, O, P]) ParseErrors(t *testing.T, refused map[string]error) {
	t.Helper()
	for text, want := range refused {
		s, err := k.ParseState(unhex(t, text))
		require.Equal(t, want, err, text)
		require.Zero(t, s)
	}
}

// ParseStates requires that these bytes in hex are the encodings of these states.
func (k Kit[S, O, P]) ParseStates(t *testing.T, states map[string]S) {
	t.Helper()
	for text, want := range states {
		s, err := k.ParseState(unhex(t, text))
		require.NoError(t, err, text)
		require.Equal(t, want, s)
		require.Equal(t, unhex(t, text), k.AppendState([]byte{}, s))
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// NormalizedStates requires that the two states of a pair have the same encoding and decide alike.
// No step returns the first. The second is the nearest state that a step can return.
func (k Kit[S, O, P]) NormalizedStates(t *testing.T, o O, pairs [][2]S) {
	t.Helper()
	for _, pair := range pairs {
		state, nearest := pair[0], pair[1]
		require.Equal(t, k.AppendState(nil, nearest), k.AppendState(nil, state), "%+v", state)
		for _, op := range policy.Ops {
			for _, at := range []int64{0, 5, 8, 1000} {
				next, r := k.CallAt(state, op, at, o, 1)
				want, wantResult := k.CallAt(nearest, op, at, o, 1)
				require.Equal(t, wantResult, r, "%+v", state)
				if r.Paid == 0 {
					want = state
				}
				require.Equal(t, want, next, "%+v", state)
			}
		}
	}
}

// CheckDecode requires that ParseState refuses the bytes, or that they are the only encoding of a
// state that the functions and the methods accept. last returns the time of a state.
func (k Kit[S, O, P]) CheckDecode(t *testing.T, b []byte, last func(S) int64, options ...O) S {
	t.Helper()
	s, err := k.ParseState(b)
	if err != nil {
		require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
		require.Zero(t, s)
		return s
	}
	require.Equal(t, string(b), string(k.AppendState(nil, s)))
	at := time.UnixMicro(last(s))
	for _, o := range options {
		for _, now := range []time.Time{{}, at, at.Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
			for _, op := range policy.Ops {
				_, r := k.CallBoth(t, s, op, now, o)
				RequireSums(t, r)
			}
		}
	}
	return s
}

// Rounds returns n, or less if tests should be short.
func Rounds(n int) int {
	if sample.Brief() {
		return n / 20
	}
	return n
}
