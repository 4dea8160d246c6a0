package gcra_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// FuzzStep holds every verb, on any state, time and options, to both faces
// agreeing and to the model.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, burst, cost, at, used, part, under, sec, nsec int64) {
		o := gcra.Options{Limit: algo.Per(count, time.Duration(period)), Burst: burst, Cost: cost}
		s := gcra.State{At: at, Used: used, Part: part, Period: time.Duration(under)}
		nearest, err := gcra.ParseState(gcra.AppendState(nil, s))
		require.NoError(t, err)
		clock := time.Unix(sec, nsec)
		for v := step; v <= charge; v++ {
			if o.Validate() != nil {
				deniesForEver(t, v, s, clock, o)
				continue
			}
			next, r := call(t, v, s, clock, o)
			addsUp(t, v, r)
			if r.Paid == 0 {
				require.Equal(t, s, next)
			}
			want, expected := modelOf(nearest).do(v, algo.Instant(clock), max(cost, 1), o)
			require.Equal(t, expected, r, "verb %d", v)
			if r.Paid != 0 {
				want.is(t, next)
			}
		}
	})
}

func deniesForEver(t *testing.T, v verb, s gcra.State, at time.Time, o gcra.Options) {
	t.Helper()
	next, r := s, algo.Result{}
	switch v {
	case step:
		next, r = gcra.Step(s, at, o)
	case peek:
		r = gcra.Peek(s, at, o)
	case refund:
		next, r = gcra.Refund(s, at, o)
	case charge:
		next, r = gcra.Charge(s, at, o)
	}
	require.Equal(t, s, next)
	require.Equal(t, algo.Result{Cost: r.Cost, RetryAfter: algo.Never}, r)
	require.Zero(t, gcra.Bound(o, time.Hour))
}

func addsUp(t *testing.T, v verb, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	for _, d := range []time.Duration{r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew} {
		require.GreaterOrEqual(t, d, time.Duration(0))
	}
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.ResetAfter == 0)
	require.Equal(t, r.NextRefill == 0, r.ResetAfter == 0)
	switch v {
	case step:
		require.Equal(t, r.Allowed, r.Paid == r.Cost)
	case peek:
		require.Zero(t, r.Paid)
	case refund:
		require.LessOrEqual(t, r.Paid, int64(0))
	case charge:
		require.GreaterOrEqual(t, r.Paid, int64(0))
	}
}

// FuzzDecode holds any bytes to be refused, or to be the one encoding of a state
// that steps.
func FuzzDecode(f *testing.F) {
	o := gcra.Options{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2}
	p, err := gcra.New(o)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := gcra.ParseState(b)
		if err != nil {
			require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
			require.Zero(t, s)
			next, r, refusal := p.Step([]byte("dst"), b, time.Unix(0, 0), 1)
			require.Equal(t, err, refusal)
			require.Equal(t, "dst", string(next))
			require.Zero(t, r)
			return
		}
		require.Equal(t, string(b), string(gcra.AppendState(nil, s)))
		for _, now := range []time.Time{{}, time.Unix(0, s.At), time.Unix(0, s.At).Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
			for v := step; v <= charge; v++ {
				_, r := call(t, v, s, now, o)
				addsUp(t, v, r)
			}
		}
	})
}
