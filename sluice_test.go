package sluice_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestForNeedsARule(t *testing.T) {
	_, err := sluice.For[string](nil)
	require.EqualError(t, err, "sluice: For needs at least one rule; a limiter without rules would allow every call")
}

func TestErrorShowsTheFaultySpec(t *testing.T) {
	key := func(s string) string { return s }
	_, err := sluice.For(nil, sluice.By("day", key, "gcra 1/day"), sluice.By("user", key, "gcra 5"))
	require.EqualError(t, err, strings.Join([]string{
		`sluice: rule "user": policy "gcra 5", column 6: limit "5": want COUNT/PERIOD, for instance 100/m or 5/250ms`,
		`gcra 5`,
		`     ^`,
	}, "\n"))
	var bad *compose.SpecError
	require.True(t, errors.As(err, &bad))
	require.Equal(t, "user", bad.Rule)

	_, err = sluice.New(nil, "gcra 10/s cost=2")
	require.ErrorContains(t, err, "cost= is not an option of a rule's policy")
	_, err = sluice.ParsePolicy("gcra 10/s cost=2")
	require.ErrorContains(t, err, "cost= is not an option of a rule's policy")
	_, err = sluice.New(nil, "")
	require.Error(t, err)
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

// Calls with an empty key share a limit. They are not unlimited.
func TestEmptyKeyIsLimited(t *testing.T) {
	limiter := sluice.MustNew(nil, "fixedwindow 1/day")
	for _, want := range []bool{true, false} {
		d, err := limiter.Allow(context.Background(), "")
		require.NoError(t, err)
		require.Equal(t, want, d.Allowed)
	}
}
