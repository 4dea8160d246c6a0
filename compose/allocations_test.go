//go:build !race

// The race detector empties the pool that decisions are made from now and then.
package compose_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

func TestThreeRulesInMemoryAllocateNothing(t *testing.T) {
	var rules []compose.Rule[string]
	for _, spec := range []string{"gcra 1000000/s", "fixedwindow 1000000/s", "tokenbucket 1000000/s"} {
		policy, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		rules = append(rules, compose.Rule[string]{Name: spec, Key: func(s string) string { return s }, Policy: policy})
	}
	l, err := compose.New(nil, rules...)
	require.NoError(t, err)
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "ann") }))
}
