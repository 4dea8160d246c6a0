// The tests promise that each tenant has the limit of its plan, and that an unknown plan and a failed store
// have their own status codes.
package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

func Example() {
	main()
	// Output:
	// acme (free): 200, limited by plan
	// acme (free): 200, limited by plan
	// acme (free): 200, limited by plan
	// acme (free): 429, denied by plan
	// bits (paid): 200, limited by plan
	// cron (internal): 200, limited by everyone
	// dodo (piad): 500, rule plan: PolicyFor: tenant "dodo" has the unknown plan "piad"
}

func TestUsedUnitsCountAfterAnUpgrade(t *testing.T) {
	limiter, err := sluice.For(nil, planRules()...)
	require.NoError(t, err)
	d, err := limiter.AllowN(t.Context(), call{"acme", "free"}, 3)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	d, err = limiter.AllowN(t.Context(), call{"acme", "paid"}, 30)
	require.NoError(t, err)
	require.False(t, d.Allowed, "3 of 30 calls are used")
	d, err = limiter.AllowN(t.Context(), call{"acme", "paid"}, 20)
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

func TestUnknownPlanIsAnErrorThatPaysNothing(t *testing.T) {
	limiter, err := sluice.For(nil, planRules()...)
	require.NoError(t, err)
	for _, plan := range []string{"", "Free", "piad"} {
		d, err := limiter.Allow(t.Context(), call{"acme", plan})
		require.ErrorContains(t, err, "unknown plan")
		require.False(t, d.Allowed)
	}
	d, err := limiter.Peek(t.Context(), call{"cron", "internal"})
	require.NoError(t, err)
	require.EqualValues(t, 5000, d.Remaining)
}

func TestFailureOfTheStoreIsAnswered503(t *testing.T) {
	require.Equal(t, "503, no connection", answer(sluice.Decision{}, errors.New("no connection")))
	require.Equal(t, "503, "+storage.ErrUnavailable.Error(), answer(sluice.Decision{}, storage.ErrUnavailable))
}
