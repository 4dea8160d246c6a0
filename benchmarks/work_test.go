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
	rounds  = flag.Int("rounds", 13, "number of rounds; each contender has one turn in each, and the median round counts")
	stretch = flag.Duration("stretch", 300*time.Millisecond, "length of a turn")
)

// work is a row: something that contenders are asked to do, in turns.
type work struct {
	area, name string
	keys       int
	goroutines int
	processes  int         // that have so many goroutines each; 0 is this one
	denied     bool        // the limit is used up; else all calls are allowed
	contenders []contender // ours first
	goals      []ratio
	// more measures something else than pace, after the turns.
	more func(t testing.TB, w *work, ours decider) (figure.Figure, figure.Goal)
}

// title names the work among those of all areas.
func (w *work) title() string { return w.area + " " + w.name }

// ratio is a goal: ours divided by another's.
type ratio struct {
	to   string
	goal float64
	p99  bool // of the p99s, and at most the goal; else of the paces, and at least the goal
}

func (g ratio) of(ours, theirs pace) float64 {
	if g.p99 {
		return float64(ours.Latencies.percentile(99)) / float64(theirs.Latencies.percentile(99))
	}
	return ours.PerSecond / theirs.PerSecond
}

// judge compares ours with another in each round. The median of the ratios is held to the goal.
func (w *work) judge(g ratio, turns map[string][]pace) figure.Goal {
	var ratios []float64
	for i, theirs := range turns[g.to] {
		ratios = append(ratios, g.of(turns[w.contenders[0].name][i], theirs))
	}
	goal := figure.Goal{Work: w.name, To: g.to, What: "decisions a second", Goal: g.goal}
	goal.SetRounds(ratios)
	if g.p99 {
		goal.What, goal.Most = "p99", true
	}
	return goal
}

func sentence(g figure.Goal) string {
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
		text += fmt.Sprintf("    %-24s %12.1f %s", f.Name, f.Value, f.Unit)
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

// measure gives the contenders their turns, round after round.
func (w *work) measure(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	if w.processes > 1 {
		defer w.share(t)()
	}
	var takeTurn []func(length time.Duration) pace
	var ours decider
	for i, c := range w.contenders {
		decide := c.open(t, w.count(), w.period()) // for a fleet it creates the tables
		if i == 0 {
			ours = decide
		}
		turn, end := w.team(t, c, decide)
		defer end()
		takeTurn = append(takeTurn, turn)
	}
	turns, length := *rounds, *stretch
	if w.goroutines == 1 { // the speed of a lone caller changes from second to second
		turns, length = 5*turns, length/5
	}
	paces := make(map[string][]pace)
	for range turns {
		for i, c := range w.contenders {
			runtime.GC() // so that nobody pays for the garbage of another
			p := takeTurn[i](length)
			if err := c.check(p); err != nil {
				t.Fatalf("%s: %v", w.title(), err)
			}
			paces[c.name] = append(paces[c.name], p)
		}
	}
	for i, c := range w.contenders {
		figures = append(figures, w.figure(c.name, paces[c.name], i == 0))
	}
	for _, g := range w.goals {
		goals = append(goals, w.judge(g, paces))
	}
	if w.more != nil {
		f, g := w.more(t, w, ours)
		figures, goals = append(figures, f), append(goals, g)
	}
	return figures, goals
}

// team makes a contender ready, in this process or as a fleet. Records exist and connections
// are open afterwards.
func (w *work) team(t testing.TB, c contender, decide decider) (turn func(time.Duration) pace, end func()) {
	if w.processes > 1 {
		f := w.startFleet(t, c)
		return f.turn, f.end
	}
	callers := w.crowd(decide)
	if err := c.check(callers.warmUp()); err != nil {
		t.Fatalf("%s: %v", w.title(), err)
	}
	return callers.run, func() {}
}

func (w *work) crowd(decide decider) crowd {
	c := crowd{decide: decide, keys: w.traffic(), callers: w.goroutines, wanted: isAllowed, keepsContext: w.denied}
	if w.denied {
		c.wanted = isDenied
	}
	return c
}

// warmUp lets the callers call for a while, whatever is decided.
func (c crowd) warmUp() pace {
	c.wanted = isAnything
	return c.run(*stretch / 2)
}

// The limit of a work allows every call. Its records last much longer than a run, as those of
// a busy key do: a limit that is hardly used would let a record expire before the next call.
func (w *work) count() int64 {
	if w.denied {
		return 1
	}
	return 100_000_000
}

func (w *work) period() time.Duration { return 100 * time.Hour }

func (w *work) figure(name string, turns []pace, ours bool) figure.Figure {
	var speeds, p50s, p99s, failures []float64
	for _, p := range turns {
		speeds = append(speeds, p.PerSecond)
		p50s = append(p50s, float64(p.Latencies.percentile(50)))
		p99s = append(p99s, float64(p.Latencies.percentile(99)))
		failures = append(failures, float64(p.Failed)/float64(p.Calls))
	}
	return figure.Figure{
		Work: w.name, Name: name, Value: median(speeds), Unit: "/s", Ours: ours,
		P50: time.Duration(median(p50s)), P99: time.Duration(median(p99s)), Failed: median(failures),
	}
}

// onlyGoals returns the work with only ours and the contenders that a goal names.
func (w work) onlyGoals() work {
	w.contenders = slices.DeleteFunc(slices.Clone(w.contenders), func(c contender) bool {
		named := func(g ratio) bool { return g.to == c.name }
		return c.name != w.contenders[0].name && !slices.ContainsFunc(w.goals, named)
	})
	return w
}

func works() []work {
	return slices.Concat(redisWorks(), postgresWorks(), sqliteWorks())
}

// traffic is that of keys which no other work has, of 20 bytes.
func (w *work) traffic() *traffic {
	t, prefix := newTraffic(w.keys), fmt.Sprintf("%04x", crc32.ChecksumIEEE([]byte(w.title()))>>16)
	for i := range t.keys {
		t.keys[i] = prefix + t.keys[i]
	}
	for i, k := range t.order {
		t.calls[i] = t.keys[k]
	}
	return t
}
