package compose_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

func at(d time.Duration) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
}

// step is a step that is no error.
func step(t testing.TB, p algo.Policy, state []byte, now time.Duration, cost int64) ([]byte, algo.Result) {
	t.Helper()
	next, r, err := p.Step(nil, state, at(now), cost)
	require.NoError(t, err)
	return next, r
}

// framed is a record as the documentation describes it.
func framed(states ...[]byte) []byte {
	b := []byte{'a', 1}
	for _, s := range states {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func TestTheRecordIsTheStatesOfTheParts(t *testing.T) {
	specs := []string{"gcra 10/s", "movingwindow 1000/m slots=200", "fixedwindow 1000/m"}
	var want [3][]byte
	var parts []algo.Policy
	for i, spec := range specs {
		parts = append(parts, policyOf(t, spec))
		for n := range 150 {
			want[i], _ = step(t, parts[i], want[i], time.Duration(n)*300*time.Millisecond, 3)
		}
	}
	require.Greater(t, len(want[1]), 127, "a length of two bytes")

	all, err := compose.All(parts...)
	require.NoError(t, err)
	var state []byte
	for n := range 150 {
		state, _ = step(t, all, state, time.Duration(n)*300*time.Millisecond, 3)
	}
	require.Equal(t, framed(want[:]...), state)
}

func TestARecordThatIsNoneIsRefused(t *testing.T) {
	two := policyOf(t, "all(gcra 10/s; fixedwindow 100/m)")
	state, _ := step(t, two, nil, 0, 1)
	first, _ := step(t, policyOf(t, "gcra 10/s"), nil, 0, 1)
	second, _ := step(t, policyOf(t, "fixedwindow 100/m"), nil, 0, 1)
	require.Equal(t, framed(first, second), state)

	for what, c := range map[string]struct {
		state []byte
		want  error
	}{
		"a part alone":         {first, algo.ErrState},
		"one part":             {framed(first), algo.ErrState},
		"three parts":          {framed(first, second, second), algo.ErrState},
		"another order":        {framed(second, first), algo.ErrState},
		"nothing in any":       {framed(nil, nil), algo.ErrState},
		"nothing framed":       {framed(), algo.ErrState},
		"a byte more":          {append(framed(first, second), 0), algo.ErrState},
		"a length overlong":    {append([]byte{'a', 1, 0x80, 0, byte(len(second))}, second...), algo.ErrState},
		"a length without end": {[]byte{'a', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, algo.ErrState},
		"a length too far":     {[]byte{'a', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, algo.ErrState},
		"an older format":      {[]byte{'a', 0}, algo.ErrState},
		"a newer format":       {[]byte{'a', 2}, algo.ErrStateVersion},
		"a newer part":         {framed([]byte{first[0], 9}, second), algo.ErrStateVersion},
	} {
		dst := []byte("dst")
		for name, move := range map[string]func(algo.Policy, []byte, []byte, time.Time, int64) ([]byte, algo.Result, error){
			"step": algo.Policy.Step, "refund": algo.Policy.Refund, "charge": algo.Policy.Charge,
		} {
			next, r, err := move(two, dst, c.state, at(0), 1)
			require.ErrorIs(t, err, c.want, "%s: %s", what, name)
			require.Equal(t, dst, next)
			require.Zero(t, r)
		}
		_, err := two.Peek(c.state, at(0), 1)
		require.ErrorIs(t, err, c.want, what)
	}
	for _, half := range [][]byte{framed(first, nil), framed(nil, second)} {
		_, err := two.Peek(half, at(0), 1)
		require.NoError(t, err, "a part may never have been seen")
	}
}

func TestADenialChargesNoPart(t *testing.T) {
	all := policyOf(t, "all(gcra 100/m; gcra 2/s; gcra 50/h)")
	state, _ := step(t, all, nil, 0, 2)
	for range 100 {
		same, r := step(t, all, state, 0, 1)
		require.False(t, r.Allowed)
		require.Equal(t, state, same)
		require.Equal(t, 1, r.Part)
	}
	r, err := all.Peek(state, at(24*time.Hour), 1)
	require.NoError(t, err)
	require.True(t, r.Fresh)
	_, r = step(t, all, state, time.Second, 2)
	require.Equal(t, int64(0), r.Remaining)
	_, r = step(t, policyOf(t, "gcra 50/h"), nil, 0, 48)
	require.Equal(t, int64(2), r.Remaining)
}

func TestThePartThatBoundIsNamed(t *testing.T) {
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
	} {
		p := policyOf(t, c.spec)
		state, r := step(t, p, nil, 0, c.cost)
		require.True(t, r.Allowed)
		_, r = step(t, p, state, 0, c.then)
		require.Equal(t, c.allowed, r.Allowed, c.spec)
		require.Equal(t, c.part, r.Part, c.spec)
		require.Equal(t, c.retry, r.RetryAfter, c.spec)
	}
}

func TestZeroAsksEachPartForItsOwnCost(t *testing.T) {
	p := policyOf(t, "all(gcra 20/s; gcra 1000/m cost=100)")
	state, r := step(t, p, nil, 0, 0)
	require.Equal(t, algo.Result{
		Allowed: true, Limit: 20, Cost: 1, Refilled: 20, Paid: 1, Remaining: 19, Fresh: true,
		NextRefill: 50 * time.Millisecond, ResetAfter: 6 * time.Second,
	}, r)
	for range 9 {
		state, r = step(t, p, state, 0, 0)
	}
	require.Equal(t, algo.Result{
		Allowed: true, Limit: 20, Cost: 100, Available: 11, Refilled: 89, Paid: 100, Part: 1,
		NextRefill: 60 * time.Millisecond, ResetAfter: time.Minute,
	}, r, "11 and 100 were left, 10 and 0 are")
	_, r = step(t, p, state, 0, 0)
	require.Equal(t, 1, r.Part)
	require.Equal(t, int64(100), r.Cost)
	require.Equal(t, 6*time.Second, r.RetryAfter)
}

func TestARefundFillsEachPart(t *testing.T) {
	p := policyOf(t, "all(gcra 10/s; gcra 100/m)")
	state, _ := step(t, p, nil, 0, 10)
	state, r, err := p.Refund(nil, state, at(500*time.Millisecond), 8)
	require.NoError(t, err)
	require.Equal(t, int64(0), r.Available)
	require.Equal(t, int64(5), r.Refilled)
	require.Equal(t, int64(-5), r.Paid, "three of the eight were there already")
	require.Equal(t, int64(10), r.Remaining)
	require.Equal(t, time.Duration(0), r.NextRefill)
	require.Equal(t, 700*time.Millisecond, r.ResetAfter, "the minute has had all eight")

	state, r, err = p.Refund(nil, state, at(500*time.Millisecond), 8)
	require.NoError(t, err)
	require.Equal(t, int64(0), r.Paid)
	require.Equal(t, time.Duration(0), r.ResetAfter)
	r, err = p.Peek(state, at(500*time.Millisecond), 1)
	require.NoError(t, err)
	require.True(t, r.Fresh)
}

// One part is full and another is the least. After the refund it is the other way
// round, and what Remaining gained is in neither part's own account.
func TestARefundCountsWhatRemainingGained(t *testing.T) {
	p := policyOf(t, "all(gcra 5/s; gcra 10/m)")
	state, _ := step(t, p, nil, 0, 5)
	state, _ = step(t, p, state, time.Second, 2)
	_, r, err := p.Refund(nil, state, at(2*time.Second), 4)
	require.NoError(t, err)
	require.Equal(t, [4]int64{3, 0, -2, 5}, [4]int64{r.Available, r.Refilled, r.Paid, r.Remaining})
}

func TestTheBoundIsTheLeast(t *testing.T) {
	p := policyOf(t, "all(gcra 10/s; gcra 100/m; fixedwindow 1000/h)")
	require.Equal(t, int64(19), p.Bound(time.Second))
	require.Equal(t, int64(199), p.Bound(time.Minute))
	require.Equal(t, int64(25000), p.Bound(24*time.Hour))
	require.Equal(t, algo.Per(10, time.Second), p.Limit())
}

// A bound that no int64 holds is the largest int64, and never wraps.
func TestALargeBoundSaturates(t *testing.T) {
	for _, spec := range []string{
		"gcra N/s", "gcra 1/ns burst=N", "tokenbucket N/s", "tokenbucket N/s refill=interval", "fixedwindow N/s", "fixedwindow N/s align=clock",
		"movingwindow N/s", "movingwindow N/s slots=12", "movingwindow N/s trailing=whole", "all(gcra N/s; fixedwindow N/s)",
	} {
		p := policyOf(t, strings.ReplaceAll(spec, "N", "4611686018427387904"))
		last := int64(0)
		for _, interval := range []time.Duration{1, time.Second, time.Minute, time.Hour, 24 * time.Hour, math.MaxInt64} {
			bound := p.Bound(interval)
			require.GreaterOrEqual(t, bound, last, "%s in %v", spec, interval)
			last = bound
		}
		require.EqualValues(t, math.MaxInt64, last, spec)
	}
	p := policyOf(t, "all(gcra 4611686018427387904/s; gcra 1/h)")
	require.EqualValues(t, 24, p.Bound(24*time.Hour))
}

func TestAChargeLeavesADebtInEachPart(t *testing.T) {
	p := policyOf(t, "all(gcra 10/s; gcra 12/m)")
	state, r, err := p.Charge(nil, nil, at(0), 15)
	require.NoError(t, err)
	require.Equal(t, int64(15), r.Paid)
	require.Equal(t, int64(-5), r.Remaining)
	require.Equal(t, 100*time.Millisecond, r.NextRefill)
	_, r = step(t, p, state, 0, 1)
	require.Equal(t, 20*time.Second, r.RetryAfter)
	require.Equal(t, 1, r.Part)
}

func TestAvailableIsWhatTheLastPayingStepLeft(t *testing.T) {
	for _, spec := range []string{
		"all(gcra 10/s; gcra 30/m burst=12)",
		"all(fixedwindow 10/s; gcra 30/m burst=12)",
		"all(movingwindow 10/s; tokenbucket 30/m burst=12; fixedwindow 6/2s)",
	} {
		p := policyOf(t, spec)
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

func TestAllWantsPolicies(t *testing.T) {
	one := policyOf(t, "gcra 10/s")
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
}

func TestTheZeroStackDenies(t *testing.T) {
	for _, zero := range []*compose.Stack{new(compose.Stack), nil} {
		state, r := step(t, zero, nil, 0, 3)
		require.Empty(t, state)
		require.Equal(t, algo.Result{Cost: 3, RetryAfter: algo.Never}, r)
		for _, move := range []func([]byte, []byte, time.Time, int64) ([]byte, algo.Result, error){zero.Refund, zero.Charge} {
			state, r, err := move(nil, nil, at(0), 3)
			require.NoError(t, err)
			require.Empty(t, state)
			require.Equal(t, algo.Result{Cost: 3, RetryAfter: algo.Never}, r)
		}
		_, err := zero.Peek(nil, at(0), -1)
		require.ErrorIs(t, err, algo.ErrCost)
		require.Zero(t, zero.Bound(time.Second))
		require.Zero(t, zero.Limit())
		require.Zero(t, zero.Len())
		require.Empty(t, zero.Parts())
		require.Equal(t, "all()", zero.String())
	}
}

func TestALimitStackedOnItselfIsThatLimit(t *testing.T) {
	for _, spec := range []string{"gcra 7/s burst=3", "tokenbucket 7/s refill=interval", "fixedwindow 7/s", "movingwindow 7/s slots=3"} {
		one := policyOf(t, spec)
		two, err := compose.All(one, one)
		require.NoError(t, err)
		require.Equal(t, one.Bound(time.Second), two.Bound(time.Second))
		require.Equal(t, one.Limit(), two.Limit())
		random := rand.New(rand.NewPCG(3, 4))
		var state, twice []byte
		var now time.Duration
		for range 5000 {
			now += time.Duration(random.Int64N(int64(400*time.Millisecond))) - 50*time.Millisecond
			cost := 1 + random.Int64N(4)
			var want, got algo.Result
			state, want = step(t, one, state, now, cost)
			twice, got = step(t, two, twice, now, cost)
			require.Equal(t, want, got, spec)
		}
	}
}

func FuzzStackState(f *testing.F) {
	p := policyOf(f, "all(gcra 10/s; fixedwindow 100/m; movingwindow 1000/h slots=3)")
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

func BenchmarkStackStep(b *testing.B) {
	for name, spec := range map[string]string{
		"two live":   "all(gcra 1000000/s; gcra 60000000/m)",
		"one lapsed": "all(gcra 1000000000/s; gcra 60000000/m)",
	} {
		b.Run(name, func(b *testing.B) {
			p := policyOf(b, spec)
			now := at(0)
			state, _, _ := p.Charge(nil, nil, now, 100)
			var spare []byte
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				next, r, err := p.Step(spare[:0], state, now, 1)
				if err != nil || !r.Allowed {
					b.Fatal(r, err)
				}
				state, spare = next, state
			}
		})
	}
}

// Its parts are the same one by one as together, and those of a stack within are its own.
func TestPartsOneByOne(t *testing.T) {
	policy, err := compose.ParsePolicy("all(gcra 10/s; all(fixedwindow 5/m; tokenbucket 100/h))")
	require.NoError(t, err)
	stack := policy.(*compose.Stack)
	var parts []algo.Policy
	for i := range stack.Len() {
		parts = append(parts, stack.Part(i))
	}
	require.Len(t, parts, 3)
	require.Equal(t, stack.Parts(), parts)
	require.Panics(t, func() { stack.Part(3) })
}
