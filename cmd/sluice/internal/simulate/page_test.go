package simulate

// The page benchmarks/compare/README.md compares the algorithms and their options on the same
// requests. These tests write the page, and check its text against the figures:
//
//	go test ./cmd/sluice/internal/simulate -run TestCommittedPageIsCurrent -update

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
	"github.com/sluice-go/sluice/internal/costed"
)

const committedPage = "../../../../benchmarks/compare/README.md"

var update = flag.Bool("update", false, "write the page "+committedPage)

// limit is the limit of all compared policies. Allowed requests are counted over its period.
var limit = algo.Per(30, time.Minute)

// specs are the compared policies.
var specs = []string{
	"gcra 30/m burst=30",
	"gcra 30/m burst=10",
	"gcra 30/m burst=1",
	"tokenbucket 30/m refill=continuous",
	"tokenbucket 30/m refill=interval",
	"tokenbucket 5/10s burst=30 refill=interval",
	"fixedwindow 30/m align=first",
	"fixedwindow 30/m align=clock",
	"movingwindow 30/m slots=1",
	"movingwindow 30/m slots=12",
	"movingwindow 30/m slots=12 trailing=whole",
}

// shape has the load of the first three streams: 1.5 times the limit. Pace divides no period, so no
// limiter is favored.
var shape = Shape{Pace: 1300 * time.Millisecond, Length: 2 * time.Hour, Clients: 1, Limit: limit, Seed: 20260101}

// section is a stream with the outcomes, the exact log first.
type section struct {
	name     string
	stream   Stream
	outcomes []outcome
}

// outcome has the counts of one policy for a stream.
type outcome struct {
	Outcome
	name       string
	bound      int64
	waits      []time.Duration // of the denials, in ascending order
	exactWaits []time.Duration // the waits by the exact log for the same denials
}

func bundledLog(t *testing.T) Stream {
	t.Helper()
	keyer, err := accesslog.ParseKeyer("ip")
	require.NoError(t, err)
	s, _, err := FromLog(context.Background(), keyer, accesslog.FromReader(sample.Name, sample.Open()))
	require.NoError(t, err)
	return s
}

// allSections are the sections of the page. Several tests read them, and none changes them.
var (
	allSections  []section
	sectionsOnce sync.Once
)

func sections(t *testing.T) []section {
	t.Helper()
	sectionsOnce.Do(func() { allSections = computeSections(t) })
	require.NotEmpty(t, allSections, "an earlier test failed to compute them")
	return allSections
}

func computeSections(t *testing.T) []section {
	t.Helper()
	all := []section{
		{name: "Uniform", stream: Steady(shape)},
		{name: "Poisson", stream: Poisson(shape)},
		{name: "Bursty", stream: Bursts(shape)},
		{name: "Edge of the window", stream: Edge(shape)},
		{name: "Access log", stream: bundledLog(t)},
	}
	for i := range all {
		s := &all[i]
		s.outcomes = append(s.outcomes, decideExactly(s.stream))
		for j, p := range policies() {
			s.outcomes = append(s.outcomes, decide(t, specs[j], p, s.stream))
		}
	}
	return all
}

// decideExactly returns the counts of the exact log as a limiter of its own.
func decideExactly(stream Stream) outcome {
	o := outcome{name: "exact log", bound: limit.Count}
	o.Calls = int64(len(stream.Arrivals))
	logs := make([]exactLog, len(stream.Clients))
	for _, a := range stream.Arrivals {
		log := &logs[a.Client]
		if wait := log.wait(limit, a.At, 1); wait > 0 {
			o.waits = append(o.waits, wait)
			continue
		}
		o.Allowed++
		o.Worst = max(o.Worst, log.add(limit, a.At, 1))
	}
	slices.Sort(o.waits)
	o.exactWaits = o.waits
	return o
}

func decide(t *testing.T, name string, policy algo.Policy, stream Stream) outcome {
	t.Helper()
	o := outcome{name: name, bound: policy.Bound(limit.Period)}
	run, err := New(costed.One(policy), stream, Options{})
	require.NoError(t, err)
	run.limit = limit // also for a policy with the same rate over another period
	for call, err := range run.Calls() {
		require.NoError(t, err)
		if !call.Result.Allowed {
			o.waits, o.exactWaits = append(o.waits, call.Result.RetryAfter), append(o.exactWaits, call.ExactWait)
		}
	}
	slices.Sort(o.waits)
	slices.Sort(o.exactWaits)
	o.Outcome = run.Outcome()
	return o
}

// render returns the page, which has a table for each stream.
func render(t *testing.T) []byte {
	t.Helper()
	all := sections(t)
	page, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"limit": limit.String,
		"table": func(name string) (string, error) {
			i := slices.IndexFunc(all, func(s section) bool { return s.name == name })
			if i < 0 {
				return "", fmt.Errorf("page.tmpl: unknown stream %q", name)
			}
			return all[i].table(), nil
		},
	}).ParseFiles("testdata/page.tmpl")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, page.Execute(&b, nil))
	return b.Bytes()
}

func (s *section) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d requests | allowed | worst period | bound | over-denied | wait, mean | p99 | exact wait, mean | p99 |\n", len(s.stream.Arrivals))
	b.WriteString("| --- |" + strings.Repeat(" ---: |", 8))
	for _, o := range s.outcomes {
		share := float64(o.Allowed) / float64(o.Calls)
		overDenied := float64(o.Unnecessary) / float64(max(1, len(o.waits)))
		fmt.Fprintf(&b, "\n| %s | %.1f%% | %.2f | %.2f | %.1f%% | %.1fs | %.1fs | %.1fs | %.1fs |", o.name, 100*share,
			float64(o.Worst)/float64(limit.Count), float64(o.bound)/float64(limit.Count), 100*overDenied,
			mean(o.waits).Seconds(), p99(o.waits).Seconds(), mean(o.exactWaits).Seconds(), p99(o.exactWaits).Seconds())
	}
	return b.String()
}

// mean returns 0 if there are no waits.
func mean(waits []time.Duration) time.Duration {
	var sum time.Duration
	for _, w := range waits {
		sum += w
	}
	return sum / time.Duration(max(1, len(waits)))
}

// p99 returns the 99th percentile of sorted waits; 0 if there are none.
func p99(waits []time.Duration) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[(99*len(waits)+99)/100-1]
}

func TestCommittedPageIsCurrent(t *testing.T) {
	text := render(t)
	if *update {
		require.NoError(t, os.WriteFile(committedPage, text, 0o644))
	}
	committed, err := os.ReadFile(committedPage)
	require.NoError(t, err)
	require.True(t, string(text) == string(committed), "the page is stale: go test ./cmd/sluice/internal/simulate -update")
}

func TestExactLogAgreesWithAlgotest(t *testing.T) {
	for _, arrivals := range [][]Arrival{Poisson(shape).Arrivals[:300], Edge(shape).Arrivals[:300]} {
		log, naive := exactLog{}, algotest.Log{}
		room := func(at time.Time) bool {
			return naive.Admitted(at.Add(1-limit.Period), limit.Period) < limit.Count
		}
		for i, a := range arrivals {
			at := time.UnixMicro(a.At)
			wait := log.wait(limit, a.At, 1)
			require.True(t, room(at.Add(wait)), "at %v, wait %v", at, wait)
			require.False(t, wait > 0 && room(at.Add(wait-1)), "at %v, wait %v", at, wait)
			if wait == 0 || i%3 == 0 { // some of them go over the limit
				naive.Add(at, 1)
				require.Equal(t, naive.Admitted(at.Add(1-limit.Period), limit.Period), log.add(limit, a.At, 1))
			}
		}
	}
}

// TestReplayCountsAgree: a simulation has the same counts as sluice replay.
func TestReplayCountsAgree(t *testing.T) {
	for _, s := range sections(t) {
		var costs []costed.Policy
		for _, p := range policies() {
			costs = append(costs, costed.One(p))
		}
		r := backtest.New(costs...)
		for _, a := range s.stream.Arrivals {
			require.NoError(t, r.Add(time.UnixMicro(a.At), []byte(s.stream.Clients[a.Client])))
		}
		for i, want := range r.Report(0).Policies {
			got := s.outcomes[i+1] // after the exact log
			require.Equal(t, want.Counts, got.Counts, "%s, %s", s.name, got.name)
			if want.Policy.Limit() == limit {
				require.Equal(t, want.Admitted, got.Worst, "%s, %s", s.name, got.name)
				require.Equal(t, want.Bound, got.bound, "%s, %s", s.name, got.name)
			}
		}
	}
}

func policies() (ps []algo.Policy) {
	for _, spec := range specs {
		ps = append(ps, sluice.MustPolicy(spec))
	}
	return ps
}

// TestAllPoliciesHaveOneRate: otherwise they would not be comparable.
func TestAllPoliciesHaveOneRate(t *testing.T) {
	for _, p := range policies() {
		l := p.Limit()
		require.Equal(t, limit.Count*int64(l.Period), l.Count*int64(limit.Period), "%v", p)
	}
}
