// These tests promise that the policy denies every call and never changes a state.
package denyall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

func TestPolicyDeniesEveryCallAndChangesNoState(t *testing.T) {
	embedded, err := compose.ParsePolicy("gcra 10/s")
	require.NoError(t, err)
	now := time.Unix(1, 0)
	used, _, err := embedded.Step(nil, nil, now, 3)
	require.NoError(t, err)
	p := denyall.Policy{Policy: embedded}
	for _, state := range [][]byte{nil, used, []byte("no state of gcra")} {
		for _, cost := range []int64{1, 5} {
			denied := algo.Result{Cost: cost, RetryAfter: algo.Never, Fresh: len(state) == 0}
			next, r, err := p.Step([]byte("x"), state, now, cost)
			require.NoError(t, err)
			require.Equal(t, "x"+string(state), string(next))
			require.Equal(t, denied, r)
			r, err = p.Peek(state, now, cost)
			require.NoError(t, err)
			require.Equal(t, denied, r)
			for _, adjust := range []func(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error){p.Refund, p.Charge} {
				next, r, err = adjust(nil, state, now, cost)
				require.NoError(t, err)
				require.Equal(t, string(state), string(next))
				require.True(t, r.Allowed)
				require.Zero(t, r.Paid)
			}
		}
		next, _, err := p.Step([]byte("x"), state, now, 0)
		require.ErrorIs(t, err, algo.ErrCost)
		require.Equal(t, "x", string(next))
	}
	require.Zero(t, p.Bound(time.Hour))
	require.Equal(t, "gcra 10/s", p.String())
}
