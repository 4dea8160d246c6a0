package main

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo/algotest"
)

const (
	gcra30      = "gcra 30/m burst=30"
	gcra10      = "gcra 30/m burst=10"
	gcra1       = "gcra 30/m burst=1"
	continuous  = "tokenbucket 30/m refill=continuous"
	interval    = "tokenbucket 30/m refill=interval"
	batches     = "tokenbucket 5/10s burst=30 refill=interval"
	first       = "fixedwindow 30/m align=first"
	clock       = "fixedwindow 30/m align=clock"
	oneSlot     = "movingwindow 30/m slots=1"
	twelveSlots = "movingwindow 30/m slots=12"
	whole       = "movingwindow 30/m slots=12 trailing=whole"
)

// results are the outcomes by pattern and name.
type results map[string]map[string]outcome

// once is enough for all tests: nothing differs from run to run.
var once = sync.OnceValues(compare)

func measured(t *testing.T) results {
	sections, err := once()
	require.NoError(t, err)
	all := make(results)
	for _, s := range sections {
		all[s.name] = make(map[string]outcome)
		for _, o := range s.outcomes {
			all[s.name][o.name] = o
		}
		require.Len(t, all[s.name], len(specs)+1)
	}
	return all
}

// TestWhatHoldsEverywhere is what the algorithms promise.
func TestWhatHoldsEverywhere(t *testing.T) {
	for pattern, by := range measured(t) {
		for name, o := range by {
			require.LessOrEqual(t, o.worst, o.bound, "%s, %s", pattern, name)
			require.Equal(t, o.requests, o.admitted+len(o.waits), "%s, %s", pattern, name)
			require.NotEmpty(t, o.waits, "%s, %s", pattern, name)
		}
		for _, name := range []string{"exact log", gcra1, whole} {
			require.LessOrEqual(t, by[name].worst, limit.Count, "%s, %s", pattern, name)
		}
		for _, name := range []string{"exact log", gcra30, continuous, interval, batches, first, clock} {
			require.Zero(t, by[name].needless, "%s, %s", pattern, name)
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

// TestBurstOfOneIsEven: two admissions are never closer than the limit's pace.
func TestBurstOfOneIsEven(t *testing.T) {
	for _, requests := range [][]request{uniform(), poisson(), bursty(), edges()} {
		entries := admissions(t, gcra1, requests).Entries
		require.NotEmpty(t, entries)
		for i := 1; i < len(entries); i++ {
			require.GreaterOrEqual(t, entries[i].At.Sub(entries[i-1].At), limit.Period/30)
		}
	}
}

// admissions are those of the requests, all of one client, that the policy admits.
func admissions(t *testing.T, spec string, requests []request) (log algotest.Log) {
	c, from, o := named(t, spec), &client{log: exactLog{limit: limit}}, outcome{}
	for _, r := range requests {
		before := o.admitted
		require.NoError(t, o.add(c, from, r.at))
		if o.admitted > before {
			log.Add(r.at, 1)
		}
	}
	return log
}

func named(t *testing.T, spec string) contender {
	cs, err := contenders()
	require.NoError(t, err)
	i := slices.IndexFunc(cs, func(c contender) bool { return c.name == spec })
	require.GreaterOrEqual(t, i, 0, spec)
	return cs[i]
}

// script and office are two addresses in the access log.
const script, office = "203.0.113.66", "192.0.2.50"

// denials counts those of the access log, by address.
func denials(t *testing.T, spec string) map[string]int {
	requests, err := sampleLog()
	require.NoError(t, err)
	of := make(map[string][]request)
	for _, r := range requests {
		of[r.key] = append(of[r.key], r)
	}
	denied := make(map[string]int)
	for key, requests := range of {
		o, err := named(t, spec).run(requests)
		require.NoError(t, err)
		denied[key] = len(o.waits)
	}
	require.Contains(t, denied, script)
	require.Contains(t, denied, office)
	return denied
}

// The tests below hold the words of page.tmpl to the figures.

func TestUniformIsAsThePageSays(t *testing.T) {
	by := measured(t)["Uniform"]
	for name, o := range by {
		if name != gcra1 {
			require.InDelta(t, by["exact log"].share(), o.share(), 0.04, name)
		}
	}
	for _, name := range []string{first, clock} {
		require.Greater(t, mean(by[name].waits), 10*time.Second, name)
	}
	for _, name := range []string{gcra30, gcra10} {
		require.Less(t, p99(by[name].waits), time.Second, name)
	}
	require.InDelta(t, 0.5, by[gcra1].share(), 0.001)
	require.Equal(t, len(by[gcra1].waits), by[gcra1].needless)
	for _, wait := range by[gcra1].waits {
		require.Equal(t, 700*time.Millisecond, wait)
	}
	for _, name := range []string{oneSlot, twelveSlots} {
		require.Greater(t, by[name].overDenied(), 0.95, name)
		require.InDelta(t, by["exact log"].share(), by[name].share(), 0.02, name)
	}
}

func TestPoissonIsAsThePageSays(t *testing.T) {
	by := measured(t)["Poisson"]
	for name, o := range by {
		require.Less(t, o.share(), by[gcra10].share()+0.01, name)
		require.GreaterOrEqual(t, mean(o.waits), mean(by[gcra10].waits)-50*time.Millisecond, name)
	}
	require.LessOrEqual(t, by[gcra10].worstPeriod(), 1.3)
	require.InDelta(t, by["exact log"].share(), by[whole].share(), 0.04)
	require.InDelta(t, 0.4, by[gcra1].share(), 0.02)
}

func TestBurstyIsAsThePageSays(t *testing.T) {
	by := measured(t)["Bursty"]
	log := by["exact log"]
	for name, o := range by {
		require.LessOrEqual(t, o.share(), by[gcra30].share(), name)
		if name != log.name && name != twelveSlots {
			require.Less(t, distance(by[twelveSlots], log), distance(o, log), name)
		}
	}
	require.Greater(t, by[gcra30].worstPeriod(), 1.9)
	require.InDelta(t, log.share(), by[whole].share(), 0.02)
	require.Greater(t, by[gcra10].overDenied(), 0.9)
}

// distance is how far apart two shares are.
func distance(a, b outcome) float64 { return max(a.share()-b.share(), b.share()-a.share()) }

func TestEdgeIsAsThePageSays(t *testing.T) {
	by := measured(t)["Edge of the window"]
	require.Equal(t, 2*limit.Count, by[clock].worst)
	require.Equal(t, 2*limit.Count-1, by[first].worst, "the knock paid for one")
	requests := edges()
	for name, want := range map[string]int64{clock: 60, first: 59, interval: 59} {
		log := admissions(t, name, requests[:1000])
		require.Equal(t, want, log.Worst(6*time.Second), name)
	}
	for _, name := range []string{gcra30, oneSlot} {
		log := admissions(t, name, requests[:1000])
		require.Greater(t, by[name].worstPeriod(), 1.9, name)
		require.Less(t, log.Worst(6*time.Second), limit.Count+5, name)
	}
	require.InDelta(t, 1.1, by[twelveSlots].worstPeriod(), 0.05)
	require.Greater(t, by[twelveSlots].worstEver(), 1.9)
	for _, name := range []string{gcra10, whole} {
		require.Equal(t, by[name].bound, by[name].worst, name)
	}
}

func TestAccessLogIsAsThePageSays(t *testing.T) {
	by := measured(t)["Access log"]
	for name, o := range by {
		require.LessOrEqual(t, o.share(), max(by[first].share(), by[clock].share()), name)
	}
	require.LessOrEqual(t, by[gcra10].worstPeriod(), 1.3)
	require.LessOrEqual(t, slices.Max(by[gcra10].waits), 2*time.Second)
	for _, name := range []string{first, clock} {
		require.Zero(t, denials(t, name)[script], name)
	}
	denied := denials(t, gcra10)
	require.Positive(t, denied[script])
	require.Positive(t, denied[office])
	require.LessOrEqual(t, len(by[gcra10].waits)-denied[script]-denied[office], 5)
}
