// Package policytest has the tests that the packages of the four algorithms share. Laws that
// hold for any algorithm are in algo/algotest; these tests also use the types of the packages.
package policytest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// Suite has the functions of the package of an algorithm with states S, options O and policies P, and what Run requires of them.
type Suite[S any, O options, P policyWith[O]] struct {
	Name string // of the package

	Step, Refund, Charge func(S, time.Time, O) (S, algo.Result)
	Peek                 func(S, time.Time, O) algo.Result
	New                  func(O) (P, error)
	AppendState          func([]byte, S) []byte
	ParseState           func([]byte) (S, error)
	// Model makes an operation in exact numbers. The state is one that a step can return.
	Model func(s S, op policy.Op, now int64, o O) (S, algo.Result)

	AnyOptions func(sample.Source) O // small options, or any valid ones
	// Bound is the documented formula. m is algo.Microseconds of the interval.
	Bound func(o O, m int64) *big.Int

	Invalid map[string]O // the text of the error, without those that all packages have
	Extreme []O          // valid options at the bounds of the range
	Specs   map[string]O

	Costs   []int64 // of the steps to the golden states
	Golden  []Golden[S, O]
	Decode  []O // options for decoded states
	At      func(S) int64
	Nearest [][2]S // a state that no step returns, and the nearest that a step can return
}

// Golden is an encoded state after steps that are 411.522617ms apart.
type Golden[S, O any] struct {
	Options O
	Hex     string
	State   S
}

// Start is the time of the first step of the golden states.
var Start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Run tests the package.
func (s *Suite[S, O, P]) Run(t *testing.T) {
	t.Run("invalid options are refused and deny", s.invalidOptions)
	t.Run("extreme options are valid", s.extremeOptions)
	t.Run("specs", s.specs)
	t.Run("bound is the documented formula", s.bound)
	t.Run("the encoding does not change", s.golden)
	t.Run("states are parsed", s.states)
	t.Run("states that no step returns decide like the nearest", s.nearest)
	t.Run("results equal the model", s.model)
}

func (s *Suite[S, O, P]) invalidOptions(t *testing.T) {
	valid := s.Extreme[0]
	all := map[string]O{
		"Limit.Count must be at least 1, got 0":                                                                    with(valid, "Limit", algo.Limit{}),
		"Limit.Count must be at most 2^40 (1099511627776), got 1099511627777":                                      with(valid, "Limit", algo.Per(algo.MaxCount+1, time.Second)),
		"Limit.Period must be at least 1us, got -1s":                                                               with(valid, "Limit", algo.Per(1, -time.Second)),
		"Limit.Period must be a whole number of microseconds, got 1.5µs; the nearest is 2µs":                       with(valid, "Limit", algo.Per(1, 1500)),
		"Limit.Period must be at most 26062d, which is 71 years, got 876000h":                                      with(valid, "Limit", algo.Per(1, 876000*time.Hour)),
		"Cost is -1: algo: cost must be at least 1":                                                                withCost(valid, -1),
		"Cost must be 0 or 1 for a Policy, got 2; pass the cost to the methods of the Policy":                      withCost(valid, 2),
		"Cost must be 0 or 1 for a Policy, got " + strconv.FormatInt(math.MaxInt64, 10) + "; pass the cost to the": withCost(valid, math.MaxInt64),
	}
	for text, o := range s.Invalid {
		all[text] = o
	}
	for text, o := range all {
		p, err := s.New(o)
		require.ErrorContains(t, err, text)
		require.True(t, strings.HasPrefix(err.Error(), s.Name+": "), err)
		require.Zero(t, p)
		require.Equal(t, strings.Contains(text, "Cost is"), errors.Is(err, algo.ErrCost))
		for _, state := range []S{*new(S), s.Golden[0].State} {
			for _, op := range policy.Ops {
				if o.Validate() != nil {
					s.Do(t, state, op, time.UnixMicro(10), o)
				}
			}
		}
	}
	next, r, err := algo.Policy(*new(P)).Step(nil, nil, Start, 1)
	require.NoError(t, err)
	require.Empty(t, next, "the zero policy denies everything")
	require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
	require.Zero(t, (*new(P)).Bound(time.Hour))
}

func (s *Suite[S, O, P]) extremeOptions(t *testing.T) {
	for _, o := range s.Extreme {
		require.NoError(t, o.Validate(), "%+v", o)
		require.NoError(t, withCost(o, math.MaxInt64).Validate())
		_, err := s.New(withCost(o, 1))
		require.NoError(t, err)
		all := withCost(o, s.Peek(*new(S), Start, o).Limit)
		next, r := s.Step(*new(S), Start, all)
		require.True(t, r.Allowed)
		require.Positive(t, r.ResetAfter)
		require.False(t, s.Peek(next, Start, all).Allowed)
	}
}

func (s *Suite[S, O, P]) specs(t *testing.T) {
	for want, o := range s.Specs {
		p, err := s.New(o)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		require.Equal(t, o, p.Options())
		require.Equal(t, limitOf(o), p.Limit())
	}
}

func (s *Suite[S, O, P]) bound(t *testing.T) {
	random := sample.New(9, 10)
	for range Rounds(20_000) {
		o := s.AnyOptions(random)
		x := sample.OneOf(random, 1, 2, random.UpTo(math.MaxInt64), min(int64(limitOf(o).Period), math.MaxInt64/9)*random.Int64N(9)+random.Int64N(2000)+1)
		want := s.Bound(o, algo.Microseconds(time.Duration(x)))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		p, err := s.New(o)
		require.NoError(t, err)
		require.Equal(t, want.Int64(), p.Bound(time.Duration(x)), "%+v over %d", o, x)
		require.Zero(t, p.Bound(time.Duration(1-x)))
	}
}

func (s *Suite[S, O, P]) golden(t *testing.T) {
	for _, g := range s.Golden {
		p, err := s.New(g.Options)
		require.NoError(t, err)
		var state []byte
		for i, cost := range s.Costs {
			state, _, err = p.Step(nil, state, Start.Add(time.Duration(i)*411_522_617), cost)
			require.NoError(t, err)
		}
		require.Equal(t, unhex(t, g.Hex), state, "%v: %x", p, state)
		parsed, err := s.ParseState(state)
		require.NoError(t, err)
		require.Equal(t, g.State, parsed)
		require.Equal(t, state, s.AppendState(nil, parsed))
	}
}

// states compares the file states.txt of the package. Wrong headers and lengths are left out, because the law StateEncoding tests them.
func (s *Suite[S, O, P]) states(t *testing.T) {
	tracetest.Answers(t, "testdata/states.txt", func(text string) string {
		b := unhex(t, text)
		state, err := s.ParseState(b)
		if err != nil {
			require.Zero(t, state)
			return err.Error()
		}
		require.Equal(t, append([]byte("dst"), b...), s.AppendState([]byte("dst"), state))
		return fmt.Sprintf("%+v", state)
	})
}

func (s *Suite[S, O, P]) nearest(t *testing.T) {
	for _, pair := range s.Nearest {
		state, nearest := pair[0], pair[1]
		require.Equal(t, s.AppendState(nil, nearest), s.AppendState(nil, state), "%+v", state)
		for _, o := range s.Decode {
			for _, op := range policy.Ops {
				for _, at := range []int64{0, 5, 8, 1000} {
					next, r := s.call(state, op, time.UnixMicro(at), o)
					want, wantResult := s.call(nearest, op, time.UnixMicro(at), o)
					require.Equal(t, wantResult, r, "%+v", state)
					if r.Paid == 0 {
						want = state
					}
					require.Equal(t, want, next, "%+v", state)
				}
			}
		}
	}
}

// model makes random operations. The options may change at any time.
func (s *Suite[S, O, P]) model(t *testing.T) {
	random, debts, cut := sample.New(2, 1), 0, 0
	for range Rounds(6000) {
		o, now := s.AnyOptions(random), random.UpTo(algo.MaxInstant)
		var state S
		for range 12 {
			if random.IntN(8) == 0 {
				o = s.AnyOptions(random)
			}
			cost := random.Cost(s.Peek(state, time.UnixMicro(now), o))
			if random.IntN(50) == 0 {
				cost = random.UpTo(math.MaxInt64)
			}
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			var r algo.Result
			state, r = s.Do(t, state, op, time.UnixMicro(now), withCost(o, cost))
			if r.Remaining < 0 {
				debts++
			}
			if op == policy.Charge && r.Paid < cost {
				cut++
			}
			now = random.Time(now, r, limitOf(o).Period, true)
		}
	}
	require.Positive(t, debts)
	require.Positive(t, cut)
}

// FuzzDecode checks that ParseState refuses bytes, or that they are the only encoding of a state that the functions
// and the methods accept.
func (s *Suite[S, O, P]) FuzzDecode(f *testing.F, check ...func(*testing.T, []byte, S)) {
	f.Add([]byte{})
	for _, g := range s.Golden {
		b, _ := hex.DecodeString(strings.ReplaceAll(g.Hex, " ", ""))
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append([]byte{b[0], 2}, b[2:]...)) // a newer version
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := s.ParseState(b)
		if err != nil {
			require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
			require.Zero(t, state)
			return
		}
		require.Equal(t, string(b), string(s.AppendState(nil, state)))
		for _, each := range check {
			each(t, b, state)
		}
		at := time.UnixMicro(s.At(state))
		for _, o := range s.Decode {
			for _, now := range []time.Time{{}, at, at.Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
				s.EachOp(t, state, now, o)
			}
		}
	})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// Rounds returns n, or less if tests should be short.
func Rounds(n int) int {
	if sample.Brief() {
		return n / 20
	}
	return n
}
