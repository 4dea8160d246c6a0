package benchmarks

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
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

// row is what was measured of one contender at one work.
type row struct {
	Area       string `json:"area"`
	Work       string `json:"work"`
	Keys       int    `json:"keys"`
	Goroutines int    `json:"goroutines"`
	Name       string `json:"name"`
	pace
	Ratio float64 `json:"ratio,omitempty"` // of ours to this one
	Goal  float64 `json:"goal,omitempty"`
}

// judge says how a goal fared, and whether it was missed.
func (w *work) judge(t testing.TB, g ratio, measured []row) (missed bool) {
	i := slices.IndexFunc(measured, func(r row) bool { return r.Name == g.to })
	ours, peer := measured[0], &measured[i]
	if g.p99 {
		missed = ours.P99 >= peer.P50
		t.Logf("%-44s p99 %v, p50 of %s %v %s", w.name, ours.P99, g.to, peer.P50, verdict(missed))
		return missed
	}
	peer.Goal = g.goal
	missed = peer.Ratio < g.goal
	t.Logf("%-44s %.2f of %s, goal %.2f %s", w.name, peer.Ratio, g.to, g.goal, verdict(missed))
	return missed
}

func verdict(missed bool) string {
	if missed {
		return "MISSED"
	}
	return "met"
}

func table(rows []row) (text string) {
	for _, r := range rows {
		text += fmt.Sprintf("    %-24s %10.0f /s  p50 %8v  p99 %8v", r.Name, r.PerSecond, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond))
		if r.Failed > 0 {
			text += fmt.Sprintf("  %.1f%% failed", 100*r.Failed)
		}
		text += "\n"
	}
	return text
}

func (w *work) measure(t testing.TB) (rows []row) {
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
	for range *rounds {
		for i, c := range w.contenders {
			switch {
			case w.processes > 1:
				paces[i] = append(paces[i], w.fleet(t, c))
			case w.denied:
				paces[i] = append(paces[i], crowd(deciders[i], keys, w.goroutines, *stretch, isDenied))
			default:
				paces[i] = append(paces[i], crowd(deciders[i], keys, w.goroutines, *stretch, isAllowed))
			}
		}
	}
	for i, c := range w.contenders {
		rows = append(rows, row{Area: w.area, Work: w.name, Keys: w.keys, Goroutines: w.goroutines, Name: c.name, pace: median(paces[i])})
	}
	return rows
}

func works() []work {
	return slices.Concat(redisWorks(), postgresWorks(), sqliteWorks())
}

// traffic is that of keys which no other work has.
func (w *work) traffic() *traffic {
	t := newTraffic(w.keys)
	for i := range t.keys {
		t.keys[i] = w.name + t.keys[i]
	}
	for i, k := range t.order {
		t.calls[i] = t.keys[k]
	}
	return t
}
