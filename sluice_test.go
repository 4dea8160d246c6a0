package sluice_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestForNeedsARule(t *testing.T) {
	_, err := sluice.For[string](nil)
	require.EqualError(t, err, "sluice: For needs at least one rule; a limiter without rules would allow every call")
	_, err = sluice.New(nil, "")
	require.Error(t, err)
}

func TestMustPanics(t *testing.T) {
	require.Panics(t, func() { sluice.MustNew(nil, "gcra 5") })
	require.Panics(t, func() { sluice.MustFor(nil, sluice.PerKey("gcra 5")) })
	require.Panics(t, func() { sluice.MustPolicy("gcra 5") })
}

// Two limiters of New on one store share the state of a key only if their policies are equal. The spelling
// of the specs does not matter.
func TestLimitersWithDifferentPoliciesShareAStore(t *testing.T) {
	store := new(memory.Store)
	left := func(spec string) int64 {
		d, err := sluice.MustNew(store, spec).Allow(context.Background(), "ann")
		require.NoError(t, err)
		return d.Remaining
	}
	require.EqualValues(t, 4, left("fixedwindow 5/hour"))
	require.EqualValues(t, 99, left("fixedwindow 100/min"))
	require.EqualValues(t, 4, left("gcra 5/hour"))
	require.EqualValues(t, 3, left(" fixedwindow  5/60m align=first"))
}

func TestMustPanicsWithTheError(t *testing.T) {
	for name, must := range map[string]func(){
		"MustNew":    func() { sluice.MustNew(nil, "gcra 5") },
		"MustFor":    func() { sluice.MustFor(nil, sluice.PerKey("gcra 5")) },
		"MustPolicy": func() { sluice.MustPolicy("gcra 5") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok)
				require.ErrorContains(t, err, `limit "5": want COUNT/PERIOD`)
			}()
			must()
		})
	}
}
