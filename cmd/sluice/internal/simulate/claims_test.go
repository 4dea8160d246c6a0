package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"
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

func TestPromisesOfTheAlgorithmsHold(t *testing.T) {
	for pattern, by := range measured(t) {
		for name, o := range by {
			require.LessOrEqual(t, o.Worst, o.bound, "%s, %s", pattern, name)
			require.Equal(t, o.Calls, o.Admitted+int64(len(o.waits)), "%s, %s", pattern, name)
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
