package fixedwindow_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

// FuzzStep holds every verb on any state, time and options to what needs no
// history: no panic, accounts that add up, waits that come true, and where the
// options are valid the answers of the model and of the encoded state.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, align, offset, cost, start, used, sec, nsec int64) {
		o := fixedwindow.Options{
			Limit: algo.Per(count, time.Duration(period)),
			Align: fixedwindow.Align(align), Offset: time.Duration(offset), Cost: cost,
		}
		s := fixedwindow.State{Start: start, Used: used}
		now := time.Unix(sec, nsec)
		for v := step; v <= charge; v++ {
			next, r := verbs[v](s, now, o)
			addsUp(t, r)
			if r.Paid == 0 {
				require.Equal(t, s, next)
			}
			if o.Validate() != nil {
				require.Equal(t, algo.Never, r.RetryAfter, "invalid options do not deny")
				continue
			}
			sameAsModel(t, s, v, algo.Instant(now), o, r)
			sameAsBytes(t, s, v, algo.Instant(now), o, next, r)
			require.Equal(t, r.Remaining, fixedwindow.Peek(next, now, o).Remaining)
		}
		comesTrue(t, s, algo.Instant(now), o)
	})
}

var verbs = [...]func(fixedwindow.State, time.Time, fixedwindow.Options) (fixedwindow.State, algo.Result){
	step: fixedwindow.Step,
	peek: func(s fixedwindow.State, now time.Time, o fixedwindow.Options) (fixedwindow.State, algo.Result) {
		return s, fixedwindow.Peek(s, now, o)
	},
	refund: fixedwindow.Refund,
	charge: fixedwindow.Charge,
}

func addsUp(t *testing.T, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	for _, d := range []time.Duration{r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew} {
		require.GreaterOrEqual(t, d, time.Duration(0))
	}
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.ResetAfter == 0)
	require.Equal(t, r.NextRefill, r.ResetAfter)
}

// sameAsModel compares an answer with the model's to the nearest state that a step returns.
func sameAsModel(t *testing.T, s fixedwindow.State, v verb, now int64, o fixedwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Used > 0 {
		m.opened = integer(min(max(s.Start, 0), algo.MaxInstant))
		m.end = m.endOf(m.opened)
		m.paid = integer(min(s.Used, algo.MaxCount))
	}
	cost := max(o.Cost, 1)
	if v == charge { // the model takes all that it is asked for
		used := m.paid.Int64()
		if now >= m.end.Int64() && m.end.IsInt64() {
			used = 0
		}
		if cost > algo.MaxCount-used {
			require.Equal(t, algo.MaxCount-used, r.Paid)
			return
		}
	}
	_, want := m.do(v, now, cost)
	require.Equal(t, want, r)
}

// sameAsBytes requires the encoded state to move as the typed one does.
func sameAsBytes(t *testing.T, s fixedwindow.State, v verb, now int64, o fixedwindow.Options, next fixedwindow.State, r algo.Result) {
	t.Helper()
	p, err := fixedwindow.New(o)
	require.NoError(t, err)
	bytes, same := callPolicy(t, p, v, fixedwindow.AppendState(nil, s), now, 0)
	require.Equal(t, r, same)
	require.Equal(t, fixedwindow.AppendState([]byte{}, next), bytes)
	again, err := fixedwindow.ParseState(bytes)
	require.NoError(t, err)
	if r.Paid != 0 {
		require.Equal(t, next, again)
	}
}

// comesTrue checks the waits that end before the end of time.
func comesTrue(t *testing.T, s fixedwindow.State, now int64, o fixedwindow.Options) {
	t.Helper()
	look := func(wait time.Duration) (r algo.Result, ok bool) {
		if int64(wait) > algo.MaxInstant-now {
			return r, false
		}
		return fixedwindow.Peek(s, time.Unix(0, now+int64(wait)), o), true
	}
	r, _ := look(0)
	if r.Allowed || r.RetryAfter == algo.Never {
		return
	}
	if at, ok := look(r.RetryAfter); ok {
		require.True(t, at.Allowed && at.Fresh, "denied still at the retry: %+v", at)
	}
	if before, ok := look(r.RetryAfter - 1); ok {
		require.False(t, before.Allowed || before.Fresh, "allowed before the retry: %+v", before)
	}
}

// FuzzDecode holds any bytes to be refused, or to be the one encoding of a state
// that steps.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := fixedwindow.ParseState(b)
		if err != nil {
			require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
			require.Zero(t, s)
			return
		}
		require.Equal(t, string(b), string(fixedwindow.AppendState(nil, s)))
		for _, align := range []fixedwindow.Align{fixedwindow.AlignFirst, fixedwindow.AlignClock} {
			o := fixedwindow.Options{Limit: algo.Per(7, time.Second), Align: align, Cost: 2}
			for _, now := range []time.Time{{}, time.Unix(0, s.Start), time.Unix(0, s.Start).Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
				next, r := fixedwindow.Step(s, now, o)
				addsUp(t, r)
				sameAsBytes(t, s, step, algo.Instant(now), o, next, r)
			}
		}
	})
}
