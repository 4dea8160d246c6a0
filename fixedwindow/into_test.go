package fixedwindow_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

// Written over the state that it comes from or elsewhere, a step is the same.
func TestStepIntoIsStep(t *testing.T) {
	p, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(300, time.Minute)})
	require.NoError(t, err)
	random, now := rand.New(rand.NewPCG(1, 1)), time.Unix(1e9, 0)
	var state []byte
	denied := 0
	for range 3000 {
		now = now.Add(time.Duration(random.Int64N(int64(time.Second))) - 100*time.Millisecond)
		cost := random.Int64N(40)
		want, wanted, err := p.Step(nil, state, now, cost)
		require.NoError(t, err)
		place := slices.Clone(state)
		var r algo.Result
		next, err := p.StepInto(place[:0], place, algo.Instant(now), cost, &r)
		require.NoError(t, err)
		require.Equal(t, wanted, r)
		require.Equal(t, string(want), string(next))
		if !r.Allowed {
			denied++
		}
		state = want
	}
	require.Positive(t, denied)
}

func TestStepIntoRefusesWhatStepDoes(t *testing.T) {
	p, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(300, time.Minute)})
	require.NoError(t, err)
	var r algo.Result
	_, err = p.StepInto(nil, []byte("no state"), 1e18, 1, &r)
	require.ErrorIs(t, err, algo.ErrState)
	_, err = p.StepInto(nil, nil, 1e18, -1, &r)
	require.ErrorIs(t, err, algo.ErrCost)
	require.Zero(t, r)
}
