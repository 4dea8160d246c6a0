package compose_test

// These tests promise that a penalty begins only with a denial of the inner policy, and ends in time.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// noon is the time of the first call.
var noon = time.Unix(1_700_000_000, 0)

// do makes an operation, and fails the test if there is an error.
func do(t testing.TB, p algo.Policy, op policy.Op, state []byte, now time.Time, cost int64) ([]byte, algo.Result) {
	t.Helper()
	next, r, err := op.Apply(p, nil, state, now, cost)
	require.NoError(t, err)
	return next, r
}

func TestADenialBeginsAPenaltyAndCallsDoNotExtendIt(t *testing.T) {
	p := mustPolicy("penalty(fixedwindow 2/15m; for=1h)")
	var state []byte
	step := func(after time.Duration, cost int64) (r algo.Result) {
		state, r = do(t, p, policy.Step, state, noon.Add(after), cost)
		require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
		return r
	}
	require.True(t, step(0, 2).Allowed)
	_, peeked := do(t, p, policy.Peek, state, noon, 1)
	require.Equal(t, 15*time.Minute, peeked.RetryAfter, "a Peek begins no penalty")
	require.Equal(t, algo.Never, step(0, 3).RetryAfter, "nor does a cost above the capacity")
	require.Equal(t, 15*time.Minute, step(0, 3).ResetAfter)

	r := step(time.Minute, 1)
	require.False(t, r.Allowed)
	require.Equal(t, time.Hour, r.RetryAfter)
	require.Zero(t, r.Remaining)
	before := state
	for after := 2 * time.Minute; after < time.Hour+time.Minute; after += 7 * time.Minute {
		r := step(after, 1)
		require.False(t, r.Allowed)
		require.Equal(t, time.Hour+time.Minute-after, r.RetryAfter)
		require.Equal(t, r.RetryAfter, r.ResetAfter)
		require.Equal(t, before, state, "there is nothing to store")
	}
	require.False(t, step(time.Hour+time.Minute-time.Microsecond, 1).Allowed)
	require.Equal(t, algo.Never, step(time.Hour+time.Minute, 3).RetryAfter)
	require.Equal(t, before, state, "there is nothing to store, although the penalty is over")
	require.Equal(t, int64(1), step(time.Hour+time.Minute, 1).Paid)
	require.True(t, step(time.Hour+time.Minute, 1).Allowed)
	require.Equal(t, time.Hour, step(time.Hour+time.Minute, 1).RetryAfter, "the next one")
}

// RetryAfter is the very microsecond, also if the inner policy denies for longer than the penalty.
func TestRetryAfterOfAPenaltyIsExact(t *testing.T) {
	random := sample.New(7, 2)
	for _, spec := range []string{"penalty(gcra 10/m burst=3; for=10s)", "penalty(fixedwindow 3/h; for=1s)", "penalty(all(gcra 1/s; movingwindow 9/m slots=3); for=1m)", "penalty(tokenbucket 5/h; for=1ms)"} {
		p := mustPolicy(spec)
		for range 200 {
			var state []byte
			now := time.UnixMicro(random.Int64N(algo.MaxInstant / 2))
			for range 20 {
				cost := random.UpTo(3)
				op := policy.Ops[random.IntN(8)%4*random.IntN(2)] // mostly steps
				next, r := do(t, p, op, state, now, cost)
				state = next
				if op == policy.Step && !r.Allowed && r.RetryAfter != algo.Never {
					_, early := do(t, p, policy.Peek, state, now.Add(r.RetryAfter-time.Microsecond), cost)
					require.False(t, early.Allowed, "%s: %v", spec, r)
					_, inTime := do(t, p, policy.Peek, state, now.Add(r.RetryAfter), cost)
					require.True(t, inTime.Allowed, "%s: %v", spec, r)
					_, reset := do(t, p, policy.Peek, state, now.Add(r.ResetAfter), cost)
					require.True(t, reset.Fresh)
				}
				now = now.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
			}
		}
	}
}

// Remaining is that of the inner policy, but during a penalty at most 0. NextRefill is when it next grows, also with a debt.
func TestNextRefillOfAPenaltyIsExact(t *testing.T) {
	debts := 0
	for _, spec := range []string{"gcra 5/s", "tokenbucket 3/2s refill=interval", "fixedwindow 2/s", "movingwindow 4/s slots=4", "all(gcra 2/s; fixedwindow 9/5s)"} {
		p := mustPolicy("penalty(" + spec + "; for=2s)")
		random := sample.New(11, 5)
		state, now := []byte(nil), noon
		for range 3000 {
			now = now.Add(time.Duration(random.Int64N(900_000)) * time.Microsecond)
			var result algo.Result
			state, result = do(t, p, sample.OneOf(random, policy.Step, policy.Step, policy.Charge, policy.Refund), state, now, 1+random.Int64N(4))
			_, peeked := do(t, p, policy.Peek, state, now, 1)
			for _, r := range []algo.Result{result, peeked} {
				require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
				if r.Remaining == r.Limit {
					continue
				}
				if r.Remaining < 0 {
					debts++
				}
				_, before := do(t, p, policy.Peek, state, now.Add(r.NextRefill-time.Microsecond), 1)
				_, after := do(t, p, policy.Peek, state, now.Add(r.NextRefill), 1)
				require.Equal(t, r.Remaining, before.Remaining, "%v: %+v", p, r)
				require.Greater(t, after.Remaining, r.Remaining, "%v: %+v", p, r)
			}
		}
	}
	require.Greater(t, debts, 1000)
}

func TestRefundAndChargeDuringAPenalty(t *testing.T) {
	p := mustPolicy("penalty(fixedwindow 2/15m; for=1h)")
	state, _ := do(t, p, policy.Step, nil, noon, 2)
	state, _ = do(t, p, policy.Step, state, noon, 1)
	state, r := do(t, p, policy.Refund, state, noon, 2)
	require.Equal(t, int64(-2), r.Paid)
	require.Equal(t, time.Hour, r.ResetAfter, "the penalty goes on")
	require.Zero(t, r.Remaining, "so a store in memory keeps the record")
	require.NotEmpty(t, state)
	_, r = do(t, p, policy.Peek, state, noon, 1)
	require.Equal(t, time.Hour, r.RetryAfter)
	state, r = do(t, p, policy.Charge, state, noon, 5)
	require.True(t, r.Allowed)
	_, r = do(t, p, policy.Peek, state, noon.Add(time.Hour), 1)
	require.True(t, r.Allowed)

	charged, _ := do(t, p, policy.Charge, nil, noon, 5)
	empty, _ := do(t, p, policy.Refund, charged, noon, 5)
	require.Empty(t, empty)
}

// A penalty ends by the current duration, counted from its begin, also if nothing was stored since the duration changed.
func TestRetryAfterIsExactIfTheDurationOfAPenaltyChanges(t *testing.T) {
	p := mustPolicy("penalty(fixedwindow 1/s; for=1h)")
	state, _ := do(t, p, policy.Step, nil, noon, 1)
	state, r := do(t, p, policy.Step, state, noon, 1)
	require.Equal(t, time.Hour, r.RetryAfter)
	for spec, lasts := range map[string]time.Duration{
		"penalty(fixedwindow 1/s; for=10m)": 10 * time.Minute,
		"penalty(fixedwindow 1/s; for=2h)":  2 * time.Hour,
	} {
		changed := mustPolicy(spec)
		for _, op := range []policy.Op{policy.Peek, policy.Step} {
			_, r := do(t, changed, op, state, noon.Add(lasts-time.Microsecond), 1)
			require.Equal(t, time.Microsecond, r.RetryAfter)
			_, r = do(t, changed, op, state, noon.Add(lasts), 1)
			require.True(t, r.Allowed)
		}
	}
}

// After the clock has stepped back, a penalty ends when it would have ended. Skew says how far ahead it began.
func TestPenaltyAfterTheClockStepsBack(t *testing.T) {
	p := mustPolicy("penalty(fixedwindow 1/15m; for=1h)")
	state, _ := do(t, p, policy.Step, nil, noon, 1)
	state, _ = do(t, p, policy.Step, state, noon.Add(10*time.Minute), 1)
	for _, op := range policy.Ops {
		_, r := do(t, p, op, state, noon.Add(-24*time.Hour), 1)
		require.Equal(t, 24*time.Hour+10*time.Minute, r.Skew, "a limiter moves the state")
		require.Equal(t, 25*time.Hour+10*time.Minute, r.ResetAfter)
	}
	_, r := do(t, p, policy.Peek, state, noon.Add(5*time.Minute), 1)
	require.Equal(t, 5*time.Minute, r.Skew)
	require.Equal(t, time.Hour+5*time.Minute, r.RetryAfter)
	_, r = do(t, p, policy.Peek, state, noon.Add(70*time.Minute), 1)
	require.True(t, r.Allowed)
}

func TestStatesOfPenalties(t *testing.T) {
	p := mustPolicy("penalty(fixedwindow 1/15m; for=1h)")
	state, _ := do(t, p, policy.Step, nil, noon, 1)
	require.Equal(t, "p\x01\x00\x00\x00\x00\x00\x00\x00f\x01", string(state[:11]))
	for _, bad := range []string{"x", "p", "f\x01", "p\x01", "p\x01\x00\x00\x00\x00\x00\x00\x00", "p\x01\xff\xff\xff\xff\xff\xff\xff", string(state) + "x", string(state[:12])} {
		_, err := p.Peek([]byte(bad), noon, 1)
		require.ErrorIs(t, err, algo.ErrState, "%q", bad)
		next, _, err := p.Step([]byte("dst"), []byte(bad), noon, 1)
		require.ErrorIs(t, err, algo.ErrState, "%q", bad)
		require.Equal(t, "dst", string(next))
	}
	_, err := p.Peek([]byte("p\x02"), noon, 1)
	require.ErrorIs(t, err, algo.ErrStateVersion)
	_, err = p.Peek(nil, noon, 0)
	require.ErrorIs(t, err, algo.ErrCost)

	for _, zero := range []*compose.Penalty{nil, new(compose.Penalty)} {
		_, r := do(t, zero, policy.Step, nil, noon, 1)
		require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
		require.Zero(t, zero.Limit())
		require.Zero(t, zero.Bound(time.Hour))
		require.Equal(t, "penalty(<nil>; for=0s)", zero.String())
		require.Equal(t, "penalty()", compose.Kind(zero))
	}
	require.Equal(t, "penalty(fixedwindow)", compose.Kind(p))
	require.Equal(t, int64(2), p.Bound(time.Hour/4))
	require.Equal(t, algo.Per(1, 15*time.Minute), p.Limit())
	for _, d := range []time.Duration{0, -time.Hour, time.Millisecond + 1, algo.MaxPeriod + time.Microsecond} {
		_, err := compose.Punish(p.(*compose.Penalty).Inner(), d)
		require.ErrorContains(t, err, "the duration must be whole microseconds from 1ms")
	}
	_, err = compose.Punish(nil, time.Hour)
	require.ErrorContains(t, err, "the policy is nil")
	_, err = compose.Punish(p, time.Hour)
	require.ErrorContains(t, err, "no other Penalty")
	_, err = compose.Punish(new(compose.Stack), time.Hour)
	require.ErrorContains(t, err, "denies everything")
}
