package simulate

// These tests promise:
//
//   - Clients call again as their Reaction says, the clock of the store or of the process decides, and
//     denials that an exact log would not make are unnecessary. The exact log and the worst interval agree
//     with algotest, and the level shows the extremes between two samples (run_test.go).
//   - Streams are deterministic and have their shape (run_test.go).
//   - The page benchmarks/compare/README.md, which compares the algorithms on the same requests, is current,
//     its statements follow from its figures, and sluice replay counts the same (page_test.go). To write it:
//
//	go test ./cmd/sluice/internal/simulate -run TestCommittedPageIsCurrent -update

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

const committedPage = "../../../../benchmarks/compare/README.md"

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

// shape has the load of the first three streams: 1.5 times the limit for two hours. The mean distance of two requests, 1.3s,
// divides no period, so no limiter is favored.
var shape = Shape{Requests: 5538, Length: 5538 * 1300 * time.Millisecond, Clients: 1, Limit: limit, Seed: 20260101}

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

// must ends the tests on an error that no test expects.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// sections are the sections of the page. Several tests read them, and none changes them.
var sections = sync.OnceValue(func() []section {
	log, _, err := FromLog(context.Background(), accesslog.FromReader(sample.Name, sample.Open()))
	must(err)
	all := []section{
		{name: "Uniform", stream: Steady(shape)},
		{name: "Poisson", stream: Poisson(shape)},
		{name: "Bursty", stream: Bursts(shape)},
		{name: "Edge of the window", stream: Edge(shape)},
		{name: "Access log", stream: log},
	}
	for i := range all {
		s := &all[i]
		s.outcomes = append(s.outcomes, decideExactly(s.stream))
		for _, spec := range specs {
			s.outcomes = append(s.outcomes, decide(spec, s.stream))
		}
	}
	return all
})

// decideExactly returns the counts of the exact log as a limiter of its own.
func decideExactly(stream Stream) outcome {
	o := outcome{name: "exact log", bound: limit.Count}
	o.Calls = int64(len(stream.Arrivals))
	logs := make([]backtest.Window, len(stream.Clients))
	for _, a := range stream.Arrivals {
		log := &logs[a.Client]
		if wait := log.Wait(limit, a.At, 1); wait > 0 {
			o.waits = append(o.waits, wait)
			continue
		}
		o.Allowed++
		o.Worst = max(o.Worst, log.Add(limit, a.At, 1))
	}
	slices.Sort(o.waits)
	o.exactWaits = o.waits
	return o
}

func decide(spec string, stream Stream) outcome {
	policy := sluice.MustPolicy(spec)
	o := outcome{name: spec, bound: policy.Bound(limit.Period)}
	run, err := New(costed.One(policy), stream, Options{})
	must(err)
	run.limit = limit // also for a policy with the same rate over another period
	for call, err := range run.Calls() {
		must(err)
		if !call.Result.Allowed {
			o.waits, o.exactWaits = append(o.waits, call.Result.RetryAfter), append(o.exactWaits, call.ExactWait)
		}
	}
	slices.Sort(o.waits)
	slices.Sort(o.exactWaits)
	o.Outcome = run.Outcome()
	return o
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
	all := sections()
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
	var text strings.Builder
	require.NoError(t, page.Execute(&text, nil))
	tracetest.Golden(t, committedPage, text.String())
}

// TestReplayCountsAgree: a simulation has the same counts as sluice replay.
func TestReplayCountsAgree(t *testing.T) {
	var costs []costed.Policy
	for _, spec := range specs {
		costs = append(costs, costed.One(sluice.MustPolicy(spec)))
	}
	for _, s := range sections() {
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

func TestStatementsOfThePageFollowFromItsFigures(t *testing.T) {
	const whole, clock = "movingwindow 30/m slots=12 trailing=whole", "fixedwindow 30/m align=clock"
	same := map[string]string{
		"gcra 30/m burst=30":               "tokenbucket 30/m refill=continuous",
		"tokenbucket 30/m refill=interval": "fixedwindow 30/m align=first",
	}
	for _, s := range sections() {
		by := make(map[string]outcome)
		for _, o := range s.outcomes {
			by[o.name] = o
			require.LessOrEqual(t, o.Worst, o.bound, "%s, %s", s.name, o.name)
			require.NotEmpty(t, o.waits, "%s, %s", s.name, o.name)
		}
		for _, name := range []string{"exact log", "gcra 30/m burst=1", whole} {
			require.LessOrEqual(t, by[name].Worst, limit.Count, "%s, %s", s.name, name)
		}
		for _, name := range []string{"exact log", "gcra 30/m burst=30", "tokenbucket 30/m refill=interval", "tokenbucket 5/10s burst=30 refill=interval", clock} {
			require.Zero(t, by[name].Unnecessary, "%s, %s", s.name, name)
		}
		for a, b := range same {
			want := by[b]
			want.name = a
			require.Equal(t, want, by[a], s.name)
		}
	}
}

// From the first edge on, a fixed window admits twice the limit within a period, less the request that opens the window.
// gcra admits the limit and what is refilled in a tenth of a period.
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

// If a stream has no room for all requests, it ends earlier for all clients.
func TestEdgeIsFairIfItIsFull(t *testing.T) {
	counts := map[int32]int{}
	for _, a := range Edge(Shape{Length: time.Hour, Clients: 1000, Limit: limit}).Arrivals {
		counts[a.Client]++
	}
	require.Len(t, counts, 1000)
	for _, n := range counts {
		require.Equal(t, MaxArrivals/1000, n)
	}
}

// A browser reads no response before it has sent the whole log.
func TestALogWithTooManyRequestsIsReadToItsEnd(t *testing.T) {
	const line = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n"
	read := func(requests, most int) (Stream, error) {
		log := strings.NewReader(strings.Repeat(line, requests))
		s, _, err := fromLog(t.Context(), most, accesslog.FromReader("log", log))
		require.Zero(t, log.Len())
		return s, err
	}
	s, err := read(20_000, 20_000)
	require.NoError(t, err)
	require.Len(t, s.Arrivals, 20_000)
	_, err = read(40_000, 20_000)
	require.ErrorContains(t, err, "the log has 40000 requests, but at most 20000 can be simulated here")
}
