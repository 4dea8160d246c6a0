package benchmarks

import (
	"flag"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	rounds  = flag.Int("rounds", 5, "how often each contender has its turn; the median counts")
	stretch = flag.Duration("stretch", time.Second, "how long a turn is")
)

// work is something that contenders are asked to do, in turns.
type work struct {
	area, name string
	keys       int
	goroutines int
	processes  int         // that have so many goroutines each; 0 is this one
	denied     bool        // the limit is used up; else all calls are allowed
	contenders []contender // ours first
	goals      []ratio
}

// ratio is how many times the pace of another ours must be; or, with p99, that our
// p99 must be below its p50.
type ratio struct {
	to   string
	goal float64
	p99  bool
}

// judge holds ours, the first of the figures, to a goal.
func (w *work) judge(g ratio, figures []figure.Figure) figure.Goal {
	ours := figures[0]
	peer := figures[slices.IndexFunc(figures, func(f figure.Figure) bool { return f.Name == g.to })]
	goal := figure.Goal{Work: w.name, To: g.to, What: "decisions a second", Ratio: ours.Value / peer.Value, Goal: g.goal}
	if g.p99 {
		goal = figure.Goal{Work: w.name, To: g.to, What: "our p99 to its p50", Ratio: float64(ours.P99) / float64(peer.P50), Goal: 1, Most: true}
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
	return fmt.Sprintf("%-44s %s: %.2f of %s, %s %.2f: %s", g.Work, g.What, g.Ratio, g.To, bound, g.Goal, verdict)
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

func (w *work) measure(t testing.TB) (figures []figure.Figure) {
	count, period := int64(plenty), plentyPeriod
	if w.denied {
		count, period = 1, 50_000*time.Hour
	}
	keys := w.traffic()
	deciders, paces := make([]decider, len(w.contenders)), make([][]pace, len(w.contenders))
	for i, c := range w.contenders {
		deciders[i] = c.open(t, count, period)
		crowd(deciders[i], keys, w.goroutines, *stretch/4, isAnything) // keys are there, and connections open
	}
	turns, length := *rounds, *stretch
	if w.goroutines == 1 { // what the machine does with a lone caller changes from second to second
		turns, length = 5*turns, length/5
	}
	for range turns {
		for i, c := range w.contenders {
			switch {
			case w.processes > 1:
				paces[i] = append(paces[i], w.fleet(t, c))
			case w.denied:
				paces[i] = append(paces[i], crowd(deciders[i], keys, w.goroutines, length, isDenied))
			default:
				paces[i] = append(paces[i], crowd(deciders[i], keys, w.goroutines, length, isAllowed))
			}
		}
	}
	for i, c := range w.contenders {
		m := median(paces[i])
		figures = append(figures, figure.Figure{
			Work: w.name, Name: c.name, Value: m.PerSecond, Unit: "/s", P50: m.P50, P99: m.P99, Failed: m.Failed, Ours: i == 0,
		})
	}
	return figures
}

func works() []work {
	return slices.Concat(redisWorks(), postgresWorks(), sqliteWorks())
}

// traffic is that of keys which no other work has, of 20 bytes.
func (w *work) traffic() *traffic {
	t, prefix := newTraffic(w.keys), fmt.Sprintf("%04x", crc32.ChecksumIEEE([]byte(w.name))>>16)
	for i := range t.keys {
		t.keys[i] = prefix + t.keys[i]
	}
	for i, k := range t.order {
		t.calls[i] = t.keys[k]
	}
	return t
}
