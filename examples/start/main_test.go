package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

func Example() {
	err := run(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// welcome
	// welcome
	// denied by rule address
	// <nil>
}

func TestDatabaseKeepsTheLimits(t *testing.T) {
	store, err := open(t.Context(), servers.Postgres(t).DSN())
	require.NoError(t, err)
	for i := range 3 {
		limiter, err := signupLimiter(store) // as in another process
		require.NoError(t, err)
		decision, err := limiter.Allow(context.Background(), signup{"192.0.2.1", "example.com"})
		require.NoError(t, err)
		require.Equal(t, i < 2, decision.Allowed)
	}
}
