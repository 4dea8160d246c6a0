package benchmarks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Floors do not decide. The period is so long that no units come back during the test.
func TestServerLimitersDecideCorrectly(t *testing.T) {
	const count, calls = 5, 600
	seen, sequence := map[string]bool{}, newSequence(100)
	for _, w := range workloads() {
		for _, c := range w.limiters {
			name := w.area + "/" + c.name
			if seen[name] || strings.HasPrefix(c.name, "floor") || c.name == sluiceOnRedisBoth.name {
				continue
			}
			seen[name] = true
			t.Run(name, func(t *testing.T) {
				decide := c.open(t, count, 1000*time.Hour)
				requireExact(t, count, calls, sequence, func(key string) (bool, error) { return decide.call("oracle " + key) })
			})
		}
	}
}

// Each key has a limit, and all keys share another one, which denies first.
func TestSharedLimitDenies(t *testing.T) {
	decide := sluiceOnRedisBoth.open(t, 20, 1000*time.Hour)
	for i := range 40 {
		allowed, err := decide.call(keyOf(i))
		require.NoError(t, err)
		require.Equal(t, i < 20, allowed)
	}
}
