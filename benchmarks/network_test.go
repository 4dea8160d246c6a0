package benchmarks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryContenderDecidesAsTheOracle lets those that are no floors decide on
// traffic of which a part is denied. Nothing comes back in time.
func TestEveryContenderDecidesAsTheOracle(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range works() {
		for _, c := range w.contenders {
			if name := w.area + "/" + c.name; !seen[name] && !strings.HasPrefix(c.name, "floor") && c.name != sluiceOnRedisBoth.name {
				seen[name] = true
				t.Run(name, func(t *testing.T) { decidesAsTheOracle(t, c) })
			}
		}
	}
}

func decidesAsTheOracle(t *testing.T, c contender) {
	const keys, count, calls = 100, 5, 600
	traffic, used := newTraffic(keys), map[string]int64{}
	decide := c.open(t, count, 1000*time.Hour)
	for i := range calls {
		key := "oracle " + traffic.key(i)
		allowed, err := decide.ask(key)
		require.NoError(t, err)
		require.Equal(t, used[key] < count, allowed, "call %d, of a key that has used %d of %d", i, used[key], count)
		if allowed {
			used[key]++
		}
	}
}

// Of a key each and one of all, the one of all denies first.
func TestTheLimitOfAllHolds(t *testing.T) {
	decide := sluiceOnRedisBoth.open(t, 20, 1000*time.Hour)
	for i := range 40 {
		allowed, err := decide.ask(keyOf(i))
		require.NoError(t, err)
		require.Equal(t, i < 20, allowed)
	}
}
