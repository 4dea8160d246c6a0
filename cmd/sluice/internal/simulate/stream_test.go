package simulate_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
)

func TestStreamsHaveTheirShape(t *testing.T) {
	shape := simulate.Shape{Requests: 6000, Length: 10 * time.Minute, Clients: 4, Limit: algo.Per(30, time.Minute), Seed: 3}
	for name, generate := range map[string]func(simulate.Shape) simulate.Stream{
		"steady": simulate.Steady, "poisson": simulate.Poisson, "bursts": simulate.Bursts,
		"edge": simulate.Edge, "greedy": simulate.Greedy, "crowd": simulate.Crowd,
	} {
		s := generate(shape)
		require.Equal(t, s, generate(shape), "%s is deterministic", name)
		require.True(t, slices.IsSortedFunc(s.Arrivals, func(a, b simulate.Arrival) int { return cmp.Compare(a.At, b.At) }), name)
		seen := make(map[int32]int)
		for _, a := range s.Arrivals {
			seen[a.Client]++
		}
		require.GreaterOrEqual(t, s.Arrivals[0].At, simulate.Epoch.UnixMicro(), name)
		require.LessOrEqual(t, s.Arrivals[len(s.Arrivals)-1].At, simulate.Epoch.UnixMicro()+shape.Length.Microseconds(), name)
		require.Len(t, seen, 4, name)
		require.Len(t, s.Clients, 4, name)
		if name == "greedy" {
			require.InEpsilon(t, len(s.Arrivals)/2, seen[0], 0.1)
		}
	}
	wave := algotest.Log{}
	for _, a := range simulate.Crowd(shape).Arrivals[:1500] {
		wave.Add(time.UnixMicro(a.At), 1)
	}
	require.EqualValues(t, 1500, wave.Worst(shape.Limit.Period/100))
}

// The limits have the shortest and the longest distance between two requests.
func TestEdgesOfExtremeLimitsEnd(t *testing.T) {
	for _, limit := range []algo.Limit{algo.Per(1, time.Microsecond), algo.Per(algo.MaxCount, algo.MaxPeriod), algo.Per(algo.MaxCount, time.Second), algo.Per(1, algo.MaxPeriod)} {
		for _, length := range []time.Duration{time.Millisecond, 366 * 24 * time.Hour} {
			n := len(simulate.Edge(simulate.Shape{Length: length, Clients: 1000, Limit: limit}).Arrivals)
			require.Positive(t, n)
			require.LessOrEqual(t, n, simulate.MaxArrivals)
		}
	}
}
