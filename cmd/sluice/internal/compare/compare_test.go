package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
)

func TestCommittedPageIsCurrent(t *testing.T) {
	text, err := render()
	require.NoError(t, err)
	committed, err := os.ReadFile("../../../../benchmarks/compare/README.md")
	require.NoError(t, err)
	require.True(t, string(text) == string(committed), "the page is stale: go run ./cmd/sluice/internal/compare")
}

func TestExactLogAgreesWithAlgotest(t *testing.T) {
	for _, requests := range [][]request{poisson()[:300], edges()[:300]} {
		log, naive := exactLog{}, algotest.Log{}
		room := func(at time.Time) bool {
			return naive.Admitted(at.Add(1-limit.Period), limit.Period) < limit.Count
		}
		for i, r := range requests {
			wait := log.wait(r.at)
			require.True(t, room(r.at.Add(wait)), "at %v, wait %v", r.at, wait)
			require.False(t, wait > 0 && room(r.at.Add(wait-1)), "at %v, wait %v", r.at, wait)
			if wait == 0 || i%3 == 0 { // some of them go over the limit
				naive.Add(r.at, 1)
				require.Equal(t, naive.Admitted(r.at.Add(1-limit.Period), limit.Period), log.add(r.at))
			}
		}
	}
}

// TestReplayCountsAgree: the page has the same counts as sluice replay.
func TestReplayCountsAgree(t *testing.T) {
	sections, err := once()
	require.NoError(t, err)
	for _, s := range sections {
		r := replay.New(policies(t)...)
		for _, q := range s.requests {
			require.NoError(t, r.Add(q.at, []byte(q.key)))
		}
		for i, want := range r.Report(0).Policies {
			got := s.outcomes[i+1] // after the exact log
			require.EqualValues(t, want.Allowed, got.admitted, "%s, %s", s.name, got.name)
			require.EqualValues(t, want.Denied, len(got.waits), "%s, %s", s.name, got.name)
			require.Equal(t, want.LongestWait, slices.Max(got.waits), "%s, %s", s.name, got.name)
			if want.Policy.Limit() == limit {
				require.Equal(t, want.Admitted, got.worst, "%s, %s", s.name, got.name)
				require.Equal(t, want.Bound, got.bound, "%s, %s", s.name, got.name)
			}
		}
	}
}

func policies(t *testing.T) (ps []algo.Policy) {
	for _, spec := range specs {
		p, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		ps = append(ps, p)
	}
	return ps
}

// TestAllPoliciesHaveOneRate, which is what makes them comparable.
func TestAllPoliciesHaveOneRate(t *testing.T) {
	for _, p := range policies(t) {
		l := p.Limit()
		require.Equal(t, limit.Count*int64(l.Period), l.Count*int64(limit.Period), "%v", p)
	}
}

func TestPatternsHaveTheStatedLoad(t *testing.T) {
	all, err := patterns()
	require.NoError(t, err)
	require.Len(t, all, 5)
	for _, p := range all {
		require.True(t, slices.IsSortedFunc(p.requests, func(a, b request) int { return a.at.Compare(b.at) }), p.name)
	}
	for _, p := range all[:3] {
		require.InEpsilon(t, length/pace, len(p.requests), 0.1, p.name)
	}
	var edge algotest.Log
	for _, r := range edges()[:300] {
		edge.Add(r.at, 1)
	}
	require.Equal(t, 2*limit.Count, edge.Worst(6*time.Second))
}
