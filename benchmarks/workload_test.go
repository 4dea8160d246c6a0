// Package benchmarks compares sluice with other rate limiters, in the same run. It is a
// module of its own, so that users of sluice do not depend on those limiters.
// scripts/bench.sh measures, compares the figures with goals, and writes README.md.
//
// The tests promise that every limiter decides correctly under the workloads.
package benchmarks

import (
	"flag"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	rounds  = flag.Int("rounds", 13, "number of rounds; each limiter has one turn in each, and the median round counts")
	stretch = flag.Duration("stretch", 300*time.Millisecond, "length of a turn")
)

// work is a workload that several limiters run in turns: one row of a table for each limiter.
type work struct {
	area, name string
	keys       int
	goroutines int
	processes  int             // each with that many goroutines; up to 1 means this process
	denied     bool            // all calls are denied; otherwise all are allowed
	limiters   []serverLimiter // sluice first
	goals      []ratio
	// more measures something else after the turns.
	more func(t testing.TB, w *work, ours decideFunc) (figure.Figure, figure.Goal)
}

// title returns a name that is unique among all areas.
func (w *work) title() string { return w.area + " " + w.name }

// row returns a workload. Its name begins with the number of processes x callers.
func row(area string, processes, callers, keys int, what string, goals []ratio, limiters ...serverLimiter) work {
	name := fmt.Sprintf("%dx%d, %s", processes, callers, what)
	return work{area: area, name: name, keys: keys, goroutines: callers, processes: processes, limiters: limiters, goals: goals}
}

// ratio is a goal for the figure of sluice divided by that of another limiter.
type ratio struct {
	to   string
	goal float64
	p99  bool // the ratio of the p99s must be at most the goal; otherwise that of the rates must be at least the goal
}

// compare returns the goal with the ratios of the values of all rounds.
func compare(g figure.Goal, ours, theirs []float64) figure.Goal {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	slices.Sort(ratios)
	n := len(ratios)
	g.Low, g.Ratio, g.High = ratios[n/4], ratios[n/2], ratios[n-1-n/4]
	return g
}

func describe(g figure.Goal) string {
	verdict := "MISSED"
	if g.Met() {
		verdict = "met"
	}
	bound := "at least"
	if g.Most {
		bound = "at most"
	}
	rounds := ""
	if g.High > 0 {
		rounds = fmt.Sprintf(" (half of the rounds: %.2f to %.2f)", g.Low, g.High)
	}
	return fmt.Sprintf("%-35s %s: %.2f of %s, %s %.2f: %s%s", g.Work, g.What, g.Ratio, g.To, bound, g.Goal, verdict, rounds)
}

func table(figures []figure.Figure) (text string) {
	work := ""
	for _, f := range figures {
		if f.Work != work {
			work = f.Work
			text += work + "\n"
		}
		text += fmt.Sprintf("    %-34s %12.1f %s", f.Name, f.Value, f.Unit)
		if f.P50 > 0 {
			text += fmt.Sprintf("  p50 %8v  p99 %8v", f.P50.Round(time.Microsecond), f.P99.Round(time.Microsecond))
		}
		if f.Failed > 0 {
			text += fmt.Sprintf("  %.1f%% failed", 100*f.Failed)
		}
		text += "\n"
	}
	return text
}

// measure runs the limiters in turns, round after round.
func (w *work) measure(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	if w.processes > 1 {
		defer w.share(t)()
	}
	var takeTurn []func(length time.Duration) Measurement
	var ours decideFunc
	for i, c := range w.limiters {
		decide := c.open(t, w.count(), w.period()) // this also creates the tables for a fleet
		if i == 0 {
			ours = decide
		}
		turn, end := w.prepare(t, c, decide)
		defer end()
		takeTurn = append(takeTurn, turn)
	}
	turns, length := *rounds, *stretch
	if w.goroutines == 1 { // the speed of one caller changes from second to second
		turns, length = 5*turns, length/5
	}
	values := make(map[string]*roundValues)
	for _, c := range w.limiters {
		values[c.name] = new(roundValues)
	}
	for range turns {
		for i, c := range w.limiters {
			runtime.GC() // so that no limiter collects the garbage of another
			p := takeTurn[i](length)
			if err := c.check(p); err != nil {
				t.Fatalf("%s: %v", w.title(), err)
			}
			values[c.name].add(p)
		}
	}
	for i, c := range w.limiters {
		v := values[c.name]
		figures = append(figures, figure.Figure{
			Work: w.name, Name: c.name, Value: median(v.speeds), Unit: "/s", Ours: i == 0,
			P50: time.Duration(median(v.p50s)), P99: time.Duration(median(v.p99s)), Failed: median(v.failures),
		})
	}
	for _, g := range w.goals {
		goal := figure.Goal{Work: w.name, To: g.to, What: "decisions a second", Goal: g.goal}
		ours, theirs := values[w.limiters[0].name], values[g.to]
		if g.p99 {
			goal.What, goal.Most = "p99", true
			goals = append(goals, compare(goal, ours.p99s, theirs.p99s))
		} else {
			goals = append(goals, compare(goal, ours.speeds, theirs.speeds))
		}
	}
	if w.more != nil {
		f, g := w.more(t, w, ours)
		figures, goals = append(figures, f), append(goals, g)
	}
	return figures, goals
}

// prepare opens a limiter in this process or in a fleet. Afterwards, records exist and
// connections are open.
func (w *work) prepare(t testing.TB, c serverLimiter, decide decideFunc) (turn func(time.Duration) Measurement, end func()) {
	if w.processes > 1 {
		f := &fleet{t: t, of: c}
		for range w.processes {
			f.members = append(f.members, w.start(t, c))
		}
		f.turn(0) // all are connected and warmed up
		return f.turn, f.end
	}
	callers := w.loadGenerator(decide)
	if err := c.check(callers.warmUp()); err != nil {
		t.Fatalf("%s: %v", w.title(), err)
	}
	return callers.run, func() {}
}

func (w *work) loadGenerator(decide decideFunc) loadGenerator {
	expects := func(allowed bool) bool { return allowed != w.denied }
	return loadGenerator{decide: decide, keys: w.sequence(), callers: w.goroutines, expects: expects, sharesContext: w.denied}
}

// warmUp runs the callers for a short time and accepts any decision.
func (c loadGenerator) warmUp() Measurement {
	c.expects = func(bool) bool { return true }
	return c.run(*stretch / 2)
}

// count and period are a limit that allows every call. Its records last much longer than a run,
// as those of a busy key do. With a shorter period, records could expire between two calls.
func (w *work) count() int64 {
	if w.denied {
		return 1
	}
	return 100_000_000
}

func (w *work) period() time.Duration { return 100 * time.Hour }

// roundValues are the values of a limiter, one for each round.
type roundValues struct{ speeds, p50s, p99s, failures []float64 }

func (v *roundValues) add(m Measurement) {
	v.speeds = append(v.speeds, m.PerSecond)
	v.p50s = append(v.p50s, float64(m.Latencies.percentile(50)))
	v.p99s = append(v.p99s, float64(m.Latencies.percentile(99)))
	v.failures = append(v.failures, float64(m.Failed)/float64(m.Calls))
}

// onlyGoals returns the work with only sluice and the limiters that a goal names.
func (w work) onlyGoals() work {
	w.limiters = slices.DeleteFunc(slices.Clone(w.limiters), func(c serverLimiter) bool {
		named := func(g ratio) bool { return g.to == c.name }
		return c.name != w.limiters[0].name && !slices.ContainsFunc(w.goals, named)
	})
	return w
}

func workloads() []work {
	return slices.Concat(redisWorkloads(), postgresWorkloads(), sqliteWorkloads())
}

// sequence returns a sequence of keys of 20 bytes that no other work uses.
func (w *work) sequence() *sequence {
	t, prefix := newSequence(w.keys), fmt.Sprintf("%04x", crc32.ChecksumIEEE([]byte(w.title()))>>16)
	for i := range t.keys {
		t.keys[i] = prefix + t.keys[i]
	}
	for i, k := range t.order {
		t.calls[i] = t.keys[k]
	}
	return t
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
