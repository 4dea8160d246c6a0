package compose_test

// These tests promise what Stack documents: its state encoding, and the result of each field.
// laws_test.go holds stacks to the laws of all policies. The traces in testdata show denials,
// refunds and NextRefill.

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
)

func mustPolicy(spec string) algo.Policy {
	p, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	return p
}

func at(d time.Duration) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
}

// step makes a step and fails the test if there is an error.
func step(t testing.TB, p algo.Policy, state []byte, now time.Duration, cost int64) ([]byte, algo.Result) {
	t.Helper()
	return do(t, p, policy.Step, state, at(now), cost)
}

// encode encodes the states of parts as the documentation of Stack describes.
func encode(states ...[]byte) []byte {
	b := []byte{'a', 1}
	for _, s := range states {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func TestStateHasTheStatesOfTheParts(t *testing.T) {
	specs := []string{"gcra 10/s", "movingwindow 1000/m slots=200", "fixedwindow 1000/m"} // sorted by kind: 2, 0, 1
	var want [3][]byte
	var parts []algo.Policy
	for i, spec := range specs {
		parts = append(parts, mustPolicy(spec))
		for n := range 150 {
			want[i], _ = step(t, parts[i], want[i], time.Duration(n)*300*time.Millisecond, 3)
		}
	}
	require.Greater(t, len(want[1]), 127, "the length needs two bytes")

	all, err := compose.All(parts...)
	require.NoError(t, err)
	var state []byte
	for n := range 150 {
		state, _ = step(t, all, state, time.Duration(n)*300*time.Millisecond, 3)
	}
	require.Equal(t, encode(want[2], want[0], want[1]), state)
	for _, state := range [][]byte{nil, state} {
		var states [][]byte
		for _, own := range all.Split(state) {
			states = append(states, own)
		}
		require.Len(t, states, 3)
		require.Equal(t, state, all.Join(states...))
	}
}

func TestInvalidStatesAreRefused(t *testing.T) {
	two := mustPolicy("all(gcra 10/s; fixedwindow 100/m)")
	state, _ := step(t, two, nil, 0, 1)
	first, _ := step(t, mustPolicy("fixedwindow 100/m"), nil, 0, 1)
	second, _ := step(t, mustPolicy("gcra 10/s"), nil, 0, 1)
	require.Equal(t, encode(first, second), state)

	for name, c := range map[string]struct {
		state []byte
		want  error
	}{
		"the state of a part":     {first, algo.ErrState},
		"one part":                {encode(first), algo.ErrState},
		"three parts":             {encode(first, second, second), algo.ErrState},
		"another order":           {encode(second, first), algo.ErrState},
		"only empty parts":        {encode(nil, nil), algo.ErrState},
		"no parts":                {encode(), algo.ErrState},
		"an extra byte":           {append(encode(first, second), 0), algo.ErrState},
		"an overlong length":      {append([]byte{'a', 1, 0x80, 0, byte(len(second))}, second...), algo.ErrState},
		"an endless length":       {[]byte{'a', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, algo.ErrState},
		"a length beyond the end": {[]byte{'a', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, algo.ErrState},
		"an older format":         {[]byte{'a', 0}, algo.ErrState},
		"a newer format":          {[]byte{'a', 2}, algo.ErrStateVersion},
		"a newer part":            {encode([]byte{first[0], 9}, second), algo.ErrStateVersion},
	} {
		_, err := two.Peek(c.state, at(0), 1)
		require.ErrorIs(t, err, c.want, name)
	}
	for _, half := range [][]byte{encode(first, nil), encode(nil, second)} {
		_, err := two.Peek(half, at(0), 1)
		require.NoError(t, err, "a part can have no state")
	}
}

func TestPartIsTheOneThatDecided(t *testing.T) {
	for _, c := range []struct {
		spec       string
		cost, then int64
		part       int
		allowed    bool
		retry      time.Duration
	}{
		{"all(gcra 10/s; gcra 20/s)", 1, 1, 0, true, 0},
		{"all(gcra 20/s; gcra 10/s)", 1, 1, 1, true, 0},
		{"all(gcra 10/s; gcra 10/s)", 1, 1, 0, true, 0},
		{"all(gcra 10/s; gcra 10/s)", 10, 1, 0, false, 100 * time.Millisecond},
		{"all(gcra 10/s; gcra 10/m)", 10, 1, 1, false, 6 * time.Second},
		{"all(gcra 10/m; gcra 10/s)", 10, 1, 0, false, 6 * time.Second},
		{"all(gcra 10/m; gcra 20/m; gcra 5/s)", 5, 6, 2, false, algo.Never},
		{"all(gcra 10/m; gcra 5/m burst=6; gcra 5/s burst=6)", 5, 7, 1, false, algo.Never},
		{"all(tokenbucket 5/s; gcra 5/s)", 4, 1, 0, true, 0}, // of equal parts the first one of the user
		{"all(gcra 5/s; tokenbucket 5/s)", 4, 1, 0, true, 0},
		{"all(gcra 5/s; tokenbucket 5/s)", 4, 6, 0, false, algo.Never},
		{"all(gcra 9/s; tokenbucket 5/s; gcra 5/s; fixedwindow 5/s)", 4, 1, 1, true, 0},
	} {
		p := mustPolicy(c.spec)
		require.Equal(t, c.spec, p.String())
		state, r := step(t, p, nil, 0, c.cost)
		require.True(t, r.Allowed)
		_, r = step(t, p, state, 0, c.then)
		require.Equal(t, c.allowed, r.Allowed, c.spec)
		require.EqualValues(t, c.part, r.Part, c.spec)
		require.Equal(t, c.retry, r.RetryAfter, c.spec)
	}
}

func TestAvailableIsWhatTheLastPaymentLeft(t *testing.T) {
	for _, spec := range []string{
		"all(gcra 10/s; gcra 30/m burst=12)",
		"all(fixedwindow 10/s; gcra 30/m burst=12)",
		"all(movingwindow 10/s; tokenbucket 30/m burst=12; fixedwindow 6/2s)",
	} {
		p := mustPolicy(spec)
		random := rand.New(rand.NewPCG(1, 2))
		var state []byte
		var now time.Duration
		var left int64
		for range 5000 {
			now += time.Duration(random.ExpFloat64() * float64(time.Second))
			next, r := step(t, p, state, now, 1+random.Int64N(3))
			if !r.Fresh {
				require.Equal(t, left, r.Available, spec)
				require.GreaterOrEqual(t, r.Refilled, int64(0))
			}
			if r.Allowed {
				left, state = r.Remaining, next
			}
		}
	}
}

func TestAllRefusesNilAndTooManyPolicies(t *testing.T) {
	one := mustPolicy("gcra 10/s")
	_, err := compose.All()
	require.EqualError(t, err, "compose: All needs at least one policy")
	_, err = compose.All(one, nil)
	require.EqualError(t, err, "compose: All: policy 1 is nil")
	_, err = compose.All((*compose.Stack)(nil))
	require.EqualError(t, err, "compose: All: policy 0 is nil")
	many := make([]algo.Policy, 65)
	for i := range many {
		many[i] = one
	}
	_, err = compose.All(many...)
	require.EqualError(t, err, "compose: All takes at most 64 policies, got 65")
	_, err = compose.All(many[:64]...)
	require.NoError(t, err)

	stack := mustPolicy("all(gcra 10/s; all(fixedwindow 5/m; tokenbucket 100/h))").(*compose.Stack)
	require.Len(t, stack.Parts(), 3)
	require.Equal(t, algo.Per(10, time.Second), stack.Limit(), "that of the first part")
}

func TestZeroStackDeniesEverything(t *testing.T) {
	zero := new(compose.Stack)
	state, r := step(t, zero, nil, 0, 3)
	require.Empty(t, state)
	require.Equal(t, algo.Result{Cost: 3, RetryAfter: algo.Never}, r)
	_, err := zero.Peek(nil, at(0), 0)
	require.ErrorIs(t, err, algo.ErrCost)
	require.Zero(t, zero.Limit())
	require.Empty(t, zero.Parts())
	require.Empty(t, (*compose.Stack)(nil).Parts())
	require.Equal(t, "all()", zero.String())
}

func FuzzStackState(f *testing.F) {
	p := mustPolicy("all(gcra 10/s; fixedwindow 100/m; movingwindow 1000/h slots=3)")
	f.Fuzz(func(t *testing.T, state []byte, offset, cost int64) {
		now := at(time.Duration(offset))
		peeked, err := p.Peek(state, now, cost)
		next, r, stepErr := p.Step(nil, state, now, cost)
		require.Equal(t, err, stepErr)
		if err != nil {
			return
		}
		require.Equal(t, r.Allowed, peeked.Allowed)
		require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
		if !r.Allowed {
			require.Equal(t, peeked, r)
			require.Equal(t, string(state), string(next))
		}
		again, err := p.Peek(next, now, 1)
		require.NoError(t, err)
		require.Equal(t, r.Remaining, again.Remaining)
	})
}

func TestStackOfAPenalty(t *testing.T) {
	stack := mustPolicy("all(gcra 10/s; gcra 100/m)")
	penalty, err := compose.Punish(stack, time.Minute)
	require.NoError(t, err)
	require.Same(t, stack, compose.StackOf(stack))
	require.Same(t, stack, compose.StackOf(penalty))
	for _, p := range []algo.Policy{mustPolicy("gcra 10/s"), mustPolicy("penalty(gcra 10/s; for=1m)"), new(compose.Penalty), (*compose.Penalty)(nil), nil} {
		require.Nil(t, compose.StackOf(p))
		require.Empty(t, compose.StackOf(p).Parts())
	}
}
