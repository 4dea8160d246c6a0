package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

func TestOptionsThatAreNotValid(t *testing.T) {
	minute := algo.Per(100, time.Minute)
	for want, o := range map[string]gcra.Options{
		"gcra: algo: Limit.Count must be at least 1, got 0":                                                                    {},
		"gcra: algo: Limit.Count must be at most 2^62, got 4611686018427387905":                                                {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"gcra: algo: Limit.Period must be at least 1ns, got -1s":                                                               {Limit: algo.Per(1, -time.Second)},
		"gcra: Burst must be at least 1, or 0 for the limit's count, got -1":                                                   {Limit: minute, Burst: -1},
		"gcra: Burst must be at most 2^62, got 4611686018427387905":                                                            {Limit: minute, Burst: algo.MaxCount + 1},
		"gcra: a burst of 76861433640456466 at 1/m takes longer than 2^62 ns to regain; use a smaller burst or a faster limit": {Limit: algo.Per(1, time.Minute), Burst: 76861433640456466},
		"gcra: Cost is -1: algo: cost must not be negative":                                                                    {Limit: minute, Cost: -1},
	} {
		p, err := gcra.New(o)
		require.EqualError(t, err, want)
		require.Zero(t, p)
		deniesForEver(t, step, gcra.State{}, y2k, o)
	}
	_, err := gcra.New(gcra.Options{Limit: minute, Cost: math.MinInt64})
	require.ErrorIs(t, err, algo.ErrCost)
}

func TestTheLongestBurstThatIsValid(t *testing.T) {
	for _, o := range []gcra.Options{
		{Limit: algo.Per(1, 1), Burst: algo.MaxCount},
		{Limit: algo.Per(1, algo.MaxCount)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxCount)},
		{Limit: algo.Per(2, math.MaxInt64), Burst: 1},
	} {
		p, err := gcra.New(o)
		require.NoError(t, err)
		require.Equal(t, o, p.Options())
		o.Cost = gcra.Peek(gcra.State{}, y2k, o).Limit
		s, r := gcra.Step(gcra.State{}, y2k, o)
		require.True(t, r.Allowed)
		require.LessOrEqual(t, r.ResetAfter, time.Duration(algo.MaxCount))
		require.False(t, gcra.Peek(s, y2k, o).Allowed)
	}
}

func TestTheSpecOfAPolicy(t *testing.T) {
	for want, o := range map[string]gcra.Options{
		"gcra 100/m":                 {Limit: algo.Per(100, time.Minute)},
		"gcra 100/m burst=20":        {Limit: algo.Per(100, time.Minute), Burst: 20},
		"gcra 5/250ms cost=2":        {Limit: algo.Per(5, 250*time.Millisecond), Burst: 5, Cost: 2},
		"gcra 1/36h burst=3 cost=10": {Limit: algo.Per(1, 36*time.Hour), Burst: 3, Cost: 10},
	} {
		p, err := gcra.New(o)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		require.Equal(t, o.Limit, p.Limit())
		require.Equal(t, gcra.Bound(o, time.Hour), p.Bound(time.Hour))
	}
}

func TestTheZeroPolicyDenies(t *testing.T) {
	var p gcra.Policy
	next, r, err := p.Step(nil, nil, y2k, 1)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
	require.Zero(t, p.Bound(time.Hour))
	require.Zero(t, p.Options())
}

func TestANegativeCostIsRefused(t *testing.T) {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(1, time.Second)})
	require.NoError(t, err)
	next, r, err := p.Step([]byte("dst"), nil, y2k, -1)
	require.Equal(t, algo.ErrCost, err)
	require.Equal(t, "dst", string(next))
	require.Zero(t, r)
}

// A cost of 0 is the options' own, in every verb.
func TestThePolicyHasACostOfItsOwn(t *testing.T) {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(10, time.Second), Cost: 3})
	require.NoError(t, err)
	state, r, err := p.Step(nil, nil, y2k, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), r.Paid)
	r, err = p.Peek(state, y2k, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), r.Cost)
	state, r, err = p.Charge(nil, state, y2k, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), r.Paid)
	_, r, err = p.Refund(nil, state, y2k, 0)
	require.NoError(t, err)
	require.Equal(t, int64(-3), r.Paid)
}
