package compose_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// A limiter calls Apply for states in memory. It returns what Step returns, even if dst is the
// memory of the state.
func TestApplyIsStep(t *testing.T) {
	for _, spec := range []string{"gcra 5/m burst=300", "tokenbucket 5/m burst=300", "fixedwindow 5/m"} {
		policy, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		p := policy.(interface {
			algo.Policy
			Apply(op algorithm.Op, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error)
		})
		random, now := rand.New(rand.NewPCG(1, 1)), time.Unix(1e9, 0)
		var state []byte
		denied := 0
		for range 3000 {
			now = now.Add(time.Duration(random.Int64N(int64(time.Second))) - 100*time.Millisecond)
			cost := random.Int64N(40)
			want, wanted, err := p.Step(nil, state, now, cost)
			require.NoError(t, err)
			memory := slices.Clone(state)
			var r algo.Result
			next, err := p.Apply(algorithm.Step, memory[:0], memory, algo.Instant(now), cost, &r)
			require.NoError(t, err)
			require.Equal(t, wanted, r)
			require.Equal(t, string(want), string(next))
			if !r.Allowed {
				denied++
			}
			state = want
		}
		require.Positive(t, denied)

		var r algo.Result
		_, err = p.Apply(algorithm.Step, nil, []byte("no state"), 1e18, 1, &r)
		require.ErrorIs(t, err, algo.ErrState)
		_, err = p.Apply(algorithm.Step, nil, nil, 1e18, -1, &r)
		require.ErrorIs(t, err, algo.ErrCost)
		require.Zero(t, r)
	}
}
