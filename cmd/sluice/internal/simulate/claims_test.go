package simulate

// These tests promise:
//
//   - Clients call again as their Reaction says, the clock of the store or of the process decides, and
//     denials that an exact log would not make are unnecessary (simulate_test.go).
//   - The exact log, the worst interval and the counts agree with algotest and with package replay
//     (page_test.go, simulate_test.go).
//   - Streams are deterministic and have the stated load (simulate_test.go).
//   - The level shows the extremes between two samples (level_extremes_test.go).
//   - The statements of benchmarks/compare/README.md follow from its figures (claims_test.go), and the
//     page is current (page_test.go).
//
// All times are literal.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/costed"
)

const (
	gcra30     = "gcra 30/m burst=30"
	gcra1      = "gcra 30/m burst=1"
	gcra10     = "gcra 30/m burst=10"
	batches    = "tokenbucket 5/10s burst=30 refill=interval"
	continuous = "tokenbucket 30/m refill=continuous"
	interval   = "tokenbucket 30/m refill=interval"
	first      = "fixedwindow 30/m align=first"
	clock      = "fixedwindow 30/m align=clock"
	whole      = "movingwindow 30/m slots=12 trailing=whole"
)

// results are the outcomes by pattern and name.
type results map[string]map[string]outcome

func measured(t *testing.T) results {
	t.Helper()
	all := make(results)
	for _, s := range sections(t) {
		all[s.name] = make(map[string]outcome)
		for _, o := range s.outcomes {
			all[s.name][o.name] = o
		}
		require.Len(t, all[s.name], len(specs)+1)
	}
	return all
}

func TestAlgorithmsKeepTheirPromises(t *testing.T) {
	for pattern, by := range measured(t) {
		for name, o := range by {
			require.LessOrEqual(t, o.Worst, o.bound, "%s, %s", pattern, name)
			require.Equal(t, o.Calls, o.Allowed+int64(len(o.waits)), "%s, %s", pattern, name)
			require.NotEmpty(t, o.waits, "%s, %s", pattern, name)
		}
		for _, name := range []string{"exact log", gcra1, whole} {
			require.LessOrEqual(t, by[name].Worst, limit.Count, "%s, %s", pattern, name)
		}
		for _, name := range []string{"exact log", gcra30, continuous, interval, batches, first, clock} {
			require.Zero(t, by[name].Unnecessary, "%s, %s", pattern, name)
		}
		require.Equal(t, by["exact log"].waits, by["exact log"].exactWaits, pattern)
		requireAlike(t, by[gcra30], by[continuous])
		requireAlike(t, by[interval], by[first])
	}
}

func requireAlike(t *testing.T, a, b outcome) {
	t.Helper()
	a.name = b.name
	require.Equal(t, b, a)
}

// TestEdgeShowsTheBurstOfFixedWindows: from the first edge on, a fixed window admits twice the limit
// within a period, less the request that opens the window. gcra admits the limit and what is refilled
// in a tenth of a period.
func TestEdgeShowsTheBurstOfFixedWindows(t *testing.T) {
	for _, limit := range []algo.Limit{algo.Per(30, time.Minute), algo.Per(20, 7*time.Second), algo.Per(1000, time.Hour)} {
		worst := func(policy string) int64 {
			run, err := New(costed.One(sluice.MustPolicy(policy)), Edge(Shape{Length: 3 * limit.Period, Clients: 1, Limit: limit}), Options{})
			require.NoError(t, err)
			for _, err := range run.Calls() {
				require.NoError(t, err)
			}
			return run.Outcome().Worst
		}
		for _, align := range []string{" align=first", " align=clock"} {
			require.Equal(t, 2*limit.Count-1, worst("fixedwindow "+limit.String()+align), "%v%s", limit, align)
		}
		require.LessOrEqual(t, worst("gcra "+limit.String()), limit.Count+limit.Count/10, limit.String())
	}
}
