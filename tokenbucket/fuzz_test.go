package tokenbucket_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

// FuzzStep holds every verb on any state, time and options to what needs no
// history: no panic, accounts that add up, and waits that come true.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, burst, refill, cost, used, at, part, under, sec, nsec int64) {
		o := tokenbucket.Options{Limit: algo.Per(count, time.Duration(period)), Burst: burst, Refill: tokenbucket.Refill(refill), Cost: cost}
		s := tokenbucket.State{Used: used, At: at, Part: part, Period: time.Duration(under)}
		now := time.Unix(sec, nsec)
		for v := step; v <= charge; v++ {
			next, r := verbs[v](s, now, o)
			addsUp(t, r)
			if r.Paid == 0 {
				require.Equal(t, s, next)
				continue
			}
			require.NoError(t, o.Validate(), "invalid options pay")
			again, err := tokenbucket.ParseState(tokenbucket.AppendState(nil, next))
			require.NoError(t, err)
			require.Equal(t, next, again)
			after := tokenbucket.Peek(next, now, o)
			require.Equal(t, r.Remaining, after.Remaining)
			require.Equal(t, r.ResetAfter, after.ResetAfter)
		}
		comesTrue(t, s, algo.Instant(now), o)
	})
}

var verbs = [...]func(tokenbucket.State, time.Time, tokenbucket.Options) (tokenbucket.State, algo.Result){
	step: tokenbucket.Step,
	peek: func(s tokenbucket.State, now time.Time, o tokenbucket.Options) (tokenbucket.State, algo.Result) {
		return s, tokenbucket.Peek(s, now, o)
	},
	refund: tokenbucket.Refund,
	charge: tokenbucket.Charge,
}

func addsUp(t *testing.T, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	for _, d := range []time.Duration{r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew} {
		require.GreaterOrEqual(t, d, time.Duration(0))
	}
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.NextRefill == 0 && r.ResetAfter == 0)
	require.LessOrEqual(t, r.NextRefill, r.ResetAfter)
}

// comesTrue checks the waits that end before the end of time.
func comesTrue(t *testing.T, s tokenbucket.State, now int64, o tokenbucket.Options) {
	r := tokenbucket.Peek(s, time.Unix(0, now), o)
	look := func(wait time.Duration) (r algo.Result, ok bool) {
		if int64(wait) > algo.MaxInstant-now {
			return r, false
		}
		return tokenbucket.Peek(s, time.Unix(0, now+int64(wait)), o), true
	}
	if r.Allowed || r.RetryAfter == algo.Never {
		return
	}
	if at, ok := look(r.RetryAfter); ok {
		require.True(t, at.Allowed, "denied still at the retry: %+v", at)
	}
	if before, ok := look(r.RetryAfter - 1); ok {
		require.False(t, before.Allowed, "allowed before the retry: %+v", before)
	}
	if at, ok := look(r.NextRefill); ok {
		require.Greater(t, at.Remaining, r.Remaining)
	}
	if before, ok := look(r.NextRefill - 1); ok {
		require.Equal(t, r.Remaining, before.Remaining)
	}
	if at, ok := look(r.ResetAfter); ok {
		require.True(t, at.Fresh)
	}
	if before, ok := look(r.ResetAfter - 1); ok {
		require.False(t, before.Fresh)
	}
}

// FuzzDecode holds any bytes to be refused, or to be the one encoding of a state
// that steps.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := tokenbucket.ParseState(b)
		if err != nil {
			require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
			require.Zero(t, s)
			return
		}
		require.Equal(t, string(b), string(tokenbucket.AppendState(nil, s)))
		for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
			p, err := tokenbucket.New(tokenbucket.Options{Limit: algo.Per(7, time.Second), Burst: 50, Refill: refill})
			require.NoError(t, err)
			for _, now := range []time.Time{{}, time.Unix(0, s.At), time.Unix(0, s.At).Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
				next, r, err := p.Step(nil, b, now, 2)
				require.NoError(t, err)
				addsUp(t, r)
				typed, same := tokenbucket.Step(s, now, tokenbucket.Options{Limit: algo.Per(7, time.Second), Burst: 50, Refill: refill, Cost: 2})
				require.Equal(t, same, r)
				require.Equal(t, string(next), string(tokenbucket.AppendState(nil, typed)))
			}
		}
	})
}
